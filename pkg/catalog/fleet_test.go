package catalog_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A fleet is a Syncer as a program on one machine uses it: a folder, an embedded database, and a
// client that loads real servers over HTTP.
type fleet struct {
	t         testing.TB
	folder    string
	objects   object.Store
	approvals *bolt.Store
	client    *upstream.Client
	servers   map[string]*upstreamtest.Server
	syncer    *catalog.Syncer
}

func newFleet(t testing.TB, tools map[string][]json.RawMessage) *fleet {
	t.Helper()
	f := &fleet{t: t, folder: t.TempDir(), servers: upstreamtest.Fleet(t, tools, upstreamtest.Options{Forget: true})}
	f.open()
	f.configure()
	return f
}

// open starts the program with the current folder.
func (f *fleet) open() {
	f.t.Helper()
	f.objects = dir.New(f.folder)
	store, err := bolt.Open(filepath.Join(f.folder, "approvals.db"), nil)
	require.OK(f.t, err)
	f.approvals = store
	f.client = upstream.New(&upstream.Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	f.syncer = catalog.NewSyncer(f.objects, store, f.client, nil)
	f.t.Cleanup(f.close)
}

func (f *fleet) close() {
	f.client.Close()
	if err := f.approvals.Close(); err != nil {
		f.t.Error(err)
	}
}

// configure writes a config with every server.
func (f *fleet) configure() {
	f.t.Helper()
	type server struct {
		URL string `json:"url"`
	}
	servers := map[string]server{}
	for name, s := range f.servers {
		servers[name] = server{s.URL}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	require.OK(f.t, err)
	if _, err := f.objects.Put(f.t.Context(), config.Key, data, ""); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) sync() (catalog.Report, *catalog.Snapshot) {
	f.t.Helper()
	rep, err := f.syncer.Sync(f.t.Context())
	require.OK(f.t, err)
	s, err := catalog.Load(f.t.Context(), f.objects, nil)
	require.OK(f.t, err)
	return rep, s
}

// holds checks that s has every tool of every server, byte for byte and approved.
func (f *fleet) holds(s *catalog.Snapshot, tools map[string][]json.RawMessage) {
	f.t.Helper()
	n := 0
	for server, defs := range tools {
		for _, raw := range defs {
			d, err := tool.ParseItem(tool.Tool, raw)
			require.OK(f.t, err)
			n++
			i, ok := s.Find(tool.ID{Server: server, Name: d.Name})
			if !ok {
				f.t.Errorf("%s:%s is missing", server, d.Name)
				continue
			}
			x := s.Tool(i)
			if !bytes.Equal(x.Definition.Raw, raw) {
				f.t.Errorf("%s: definition %s, want %s", x.ID, x.Definition.Raw, raw)
			}
			if diff := cmp.Diff(d, x.Definition); diff != "" {
				f.t.Errorf("%s (-want +got):\n%s", x.ID, diff)
			}
			if x.Approval == nil || x.Approval.State != approval.Approved {
				f.t.Errorf("%s: record %+v", x.ID, x.Approval)
			}
		}
	}
	if s.Len() != n {
		f.t.Errorf("%d tools, want %d", s.Len(), n)
	}
}

func twoServers(testing.TB) map[string][]json.RawMessage {
	return map[string][]json.RawMessage{
		"files": {
			[]byte(`{ "name" : "read", "inputSchema":{"type":"object","maximum":9007199254740993}, "x-new": [1e400] }`),
			upstreamtest.Tool("write", "Writes a file.", "", "path", "text"),
		},
		"mail": {upstreamtest.Tool("send", "Sends a mail.", "", "to")},
	}
}

// A gateway with real servers over HTTP keeps every byte of every tool. A sync without changes, and
// a process without a cache, make the same catalog. The gateway restarts while no server answers.
func TestSyncOverHTTP(t *testing.T) {
	for name, list := range map[string]func(testing.TB) map[string][]json.RawMessage{"two servers": twoServers, "real tools": local.Tools} {
		t.Run(name, func(t *testing.T) {
			tools := list(t)
			f := newFleet(t, tools)
			rep, s := f.sync()
			f.holds(s, tools)
			if len(rep.Servers) != len(tools) || rep.New != s.Len() || !rep.Stored {
				t.Errorf("report of the first sync: %d servers, %d new, stored %v", len(rep.Servers), rep.New, rep.Stored)
			}
			if again, s2 := f.sync(); again.Stored || again.New != 0 || again.Changed != 0 || s2.SHA256() != s.SHA256() {
				t.Errorf("report of the second sync: %+v", again)
			}
			f.close()
			f.open()
			if third, _ := f.sync(); third.Stored || third.Snapshot != rep.Snapshot {
				t.Errorf("after a restart: stored %v, %s after %s", third.Stored, third.Snapshot, rep.Snapshot)
			}
			for _, s := range f.servers {
				s.Refuse()
			}
			f.close()
			f.open()
			rep, s = f.sync()
			f.holds(s, tools)
			for _, server := range rep.Servers {
				if server.Outcome.Status != outcome.Permanent || server.Outcome.Reason != outcome.ReasonRefused || !server.Kept {
					t.Errorf("%s: %+v", server.Name, server)
				}
			}
			for _, s := range f.servers {
				require.OK(t, s.Return())
			}
			rep, _ = f.sync()
			for _, server := range rep.Servers {
				if server.Outcome.Status != outcome.Available {
					t.Errorf("%s after its return: %+v", server.Name, server.Outcome)
				}
			}
		})
	}
}
