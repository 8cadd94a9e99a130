package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func benchServer(b *testing.B, o upstreamtest.Options) *upstreamtest.Server {
	b.Helper()
	o.Tools, o.Forget = []json.RawMessage{echoTool()}, true
	return upstreamtest.New(b, o)
}

// BenchmarkCall compares a call through the client with the same bytes sent by net/http.
func BenchmarkCall(b *testing.B) {
	arguments := json.RawMessage(`{"text":"a text of the usual length, as agents send it"}`)
	for name, o := range map[string]upstreamtest.Options{
		"client": {Protocols: upstreamtest.Modern}, "client, on a session": {Protocols: upstreamtest.Legacy, Sessions: true},
		"client, signed in": {Protocols: upstreamtest.Modern},
	} {
		b.Run(name, func(b *testing.B) {
			s := benchServer(b, o)
			at := Target{ID: "s", URL: s.URL}
			c := New(&Options{AllowNets: loopback(), Connections: &fakeConnections{token: strings.Repeat("t", 1000)}})
			if name == "client, signed in" {
				at.SignIn, at.Connected = &oauth.Settings{}, true
			}
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Call(b.Context(), at, Call{Owner: owner("a"), Name: "echo", Arguments: arguments}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("net/http", func(b *testing.B) {
		s := benchServer(b, upstreamtest.Options{Protocols: upstreamtest.Modern})
		c := New(nil)
		m, err := c.callMessage(mcpSession{modern: true, version: mcp.VersionModern}, Call{Name: "echo", Arguments: arguments})
		require.OK(b, err)
		body := request(1, m.method, m.params)
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, bytes.NewReader(body))
			require.OK(b, err)
			for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Protocol-Version": mcp.VersionModern} {
				req.Header.Set(name, value)
			}
			resp, err := http.DefaultClient.Do(req)
			require.OK(b, err)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				b.Fatalf("status %d, %v", resp.StatusCode, err)
			}
			_ = resp.Body.Close()
		}
	})
}

// BenchmarkTake takes 527 real definitions into a listing, and searches only for references.
func BenchmarkTake(b *testing.B) {
	catalog := local.Tools(b)
	listings := map[string]*pages{}
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for name, list := range catalog {
				listings[name] = &pages{list: listOfTools, before: &listing{}}
				for _, raw := range list {
					listings[name].take(raw)
				}
			}
		}
	})
	b.Run("references", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, l := range listings {
				for _, d := range l.taken {
					require.OK(b, checkReferences(d))
				}
			}
		}
	})
}

// BenchmarkLoadAll loads 70 servers with 527 tools.
func BenchmarkLoadAll(b *testing.B) {
	catalog := local.Tools(b)
	var targets []Target
	for name, s := range upstreamtest.Fleet(b, catalog, upstreamtest.Options{Protocols: upstreamtest.Modern, Forget: true}) {
		targets = append(targets, Target{ID: name, URL: s.URL})
	}
	for b.Loop() {
		c := New(&Options{AllowNets: loopback()})
		for _, o := range c.LoadAll(b.Context(), targets, nil) {
			if o.Status != outcome.Available {
				b.Fatalf("%s: %s %s", o.ServerID, o.Status, o.Error)
			}
		}
		c.Close()
	}
}

// BenchmarkLoadAllInTrouble loads 70 real servers, of which 5 hang.
func BenchmarkLoadAllInTrouble(b *testing.B) {
	for b.Loop() {
		var targets []Target
		for i := range 70 {
			s := upstreamtest.New(b, upstreamtest.Options{Tools: tools(8), Protocols: upstreamtest.Modern, Forget: true})
			trouble(s, i)
			targets = append(targets, Target{ID: s.Addr(), URL: s.URL})
		}
		c := New(&Options{AllowNets: loopback()})
		ids, _ := byStatus(c.LoadAll(b.Context(), targets, nil))
		c.Close()
		if len(ids[outcome.Transient]) != 10 || len(ids[outcome.Permanent]) != 5 || len(ids[outcome.Denied]) != 5 {
			b.Fatalf("outcomes: %v", ids)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	e := evidence{err: &statusError{status: 403}, exchange: answered(403, "RBAC: access denied")}
	b.ReportAllocs()
	for b.Loop() {
		if classify(e).Status != outcome.Denied {
			b.Fatal("not denied")
		}
	}
}
