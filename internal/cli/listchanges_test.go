package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A server that reports changes without end causes few syncs, and even fewer if they find nothing.
func TestListChangesLimit(t *testing.T) {
	for _, c := range []struct {
		name      string
		isChanged bool
		want      []int // the first syncs, in seconds
		inAnHour  int
	}{
		{"changes", true, []int{0, 0, 0, 0, 5, 10, 15}, 4 + 720},
		{"no changes", false, []int{0, 0, 0, 0, 80, 240}, 4 + 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := newListChanges(), time.Now()
				var at []int
				for time.Since(start) < time.Hour {
					l.note("busy")
					l.sync(func(names []string) bool {
						if !slices.Equal(names, []string{"busy"}) {
							t.Errorf("synced %v", names)
						}
						at = append(at, int(time.Since(start).Round(time.Second)/time.Second))
						l.note("busy") // during its own sync
						return c.isChanged
					})
					time.Sleep(10 * time.Millisecond)
				}
				if got := at[:len(c.want)]; !slices.Equal(got, c.want) {
					t.Errorf("synced at %v, want %v", got, c.want)
				}
				if n := len(at); n > c.inAnHour {
					t.Errorf("%d syncs in an hour, want at most %d", n, c.inAnHour)
				}
				l.note("calm")
				n := 0
				l.sync(func(names []string) bool { n++; return slices.Contains(names, "calm") })
				if n != 1 {
					t.Error("the report of another server waits")
				}
			})
		})
	}
}

// A reporting is a server of the official SDK, and the number of its open notification streams.
type reporting struct {
	*sdk.Server
	url  string
	open atomic.Int32
}

func newReporting(t *testing.T) *reporting {
	r := &reporting{Server: sdk.NewServer(&sdk.Implementation{Name: "r", Version: "1"}, nil)}
	r.add("first")
	handler := sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return r.Server },
		nil,
	)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet || req.Header.Get("Mcp-Method") == "subscriptions/listen" {
			r.open.Add(1)
			defer r.open.Add(-1)
		}
		handler.ServeHTTP(w, req)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	r.url = s.URL
	return r
}

func (r *reporting) add(tool string) {
	sdk.AddTool(
		r.Server,
		&sdk.Tool{Name: tool},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		},
	)
}

// A server adds a tool. The gateway's client gets a notification and then lists the tool, although
// no sync of all servers has run. When the server is stopped, the gateway no longer listens to it.
func TestListChangesReachClients(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		server, other, dir := newReporting(t), newReporting(t), t.TempDir()
		protocol := map[string]string{"handshake": "2025-11-25", "stateless": "auto"}[e.name]
		configure := func(isEnabled bool) {
			programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {
				"r": {"url": %q, "approval": "off", "protocol": %q},
				"other": {"url": %q, "disabled_tools": ["*"], "protocol": %[2]q, "enabled": %[4]t}
			}, "gateway": {"mode": "direct"}}`, server.url, protocol, other.url, isEnabled))
		}
		configure(true)
		p := start(t, dir)
		local.Until(
			t,
			"the gateway listens to both servers",
			func() bool { return server.open.Load() == 1 && other.open.Load() == 1 },
		)

		notified := make(chan struct{}, 10)
		client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
			ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
				notified <- struct{}{}
			},
		})
		session, err := client.Connect(
			t.Context(),
			&sdk.StreamableClientTransport{Endpoint: p.URL + "/mcp"},
			&sdk.ClientSessionOptions{ProtocolVersion: e.version},
		)
		require.OK(t, err)
		defer session.Close()
		names := func() (names []string) {
			list, err := session.ListTools(t.Context(), nil)
			require.OK(t, err)
			for _, tool := range list.Tools {
				if strings.HasPrefix(tool.Name, "r__") {
					names = append(names, tool.Name)
				}
			}
			return names
		}
		if got := names(); !slices.Equal(got, []string{"r__first"}) {
			t.Fatalf("the client lists %v", got)
		}
		server.add("second")
		local.Until(t, "the client is notified", func() bool { return len(notified) > 0 })
		if got := names(); !slices.Equal(got, []string{"r__first", "r__second"}) {
			t.Errorf("after the notification, the client lists %v", got)
		}
		if !strings.Contains(p.log.String(), "resting=1") {
			t.Error("the change did not come with a sync of its server alone")
		}
		p.Ask(http.StatusOK, "/admin/stop", map[string]any{"server": "r", "reason": "test"}, nil)
		local.Until(
			t,
			"the gateway no longer listens to the stopped server",
			func() bool { return server.open.Load() == 0 && other.open.Load() == 1 },
		)
		configure(false)
		local.Until(
			t,
			"the gateway no longer listens to the disabled server",
			func() bool { return other.open.Load() == 0 },
		)
	})
}
