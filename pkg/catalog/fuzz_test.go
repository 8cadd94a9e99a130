package catalog

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// fuzzed is a catalog of one server with one tool.
func fuzzed(f *testing.F) *Snapshot {
	f.Helper()
	d, err := tool.ParseItem(tool.Tool, []byte(`{"name":"read","description":"Reads a file.","inputSchema":{"type":"object"}}`))
	require.OK(f, err)
	s, err := Build(Input{Servers: []ServerInput{{Name: "fs", Enabled: true, Tools: []ToolInput{{Definition: d}}}}})
	require.OK(f, err)
	return s
}

// known reports whether an error describes the fault of the stored data.
func known(err error) bool { return errors.Is(err, ErrUnusable) || errors.Is(err, ErrNewer) }

func FuzzParseCurrent(f *testing.F) {
	s := fuzzed(f)
	at := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	good, err := Current{
		Format: Format, SHA256: s.SHA256(), Shards: []Shard{s.shards[0].entry()}, Config: "v", StartedAt: at, SyncedAt: at,
		Outcomes: []outcome.Outcome{{ServerID: "fs", Status: outcome.Available, CheckedAt: at}}, Servers: []ServerState{{Name: "fs", Identity: "x#tools"}},
	}.encode()
	require.OK(f, err)
	f.Add(good)
	f.Add([]byte(`{"sha256":"` + s.SHA256() + `","size":1,"tools":1,"stored_at":"2026-11-23T02:00:00Z"}`))
	f.Add([]byte(`{"format":3,"more":[1]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cur, err := parseCurrent(data)
		if err != nil {
			if !known(err) {
				t.Errorf("error %v is neither ErrUnusable nor ErrNewer", err)
			}
			return
		}
		if len(cur.Shards) == 0 {
			t.Error("parseCurrent accepts a catalog without shards")
		}
		head, err := parseHead(data)
		if diff := cmp.Diff(cur.Shards, head.Shards); err != nil || diff != "" || head.SHA256 != cur.SHA256 || head.Format != cur.Format {
			t.Errorf("parseHead and parseCurrent differ: %v\n%s", err, diff)
		}
		cur.Format = Format // encode writes this format
		again, err := cur.encode()
		if err != nil {
			return // JSON cannot represent this time
		}
		back, err := parseCurrent(again)
		if diff := cmp.Diff(cur, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("encode and parse change the catalog: %v\n%s", err, diff)
		}
	})
}

func FuzzParseFound(f *testing.F) {
	s := fuzzed(f)
	good, err := loadResult{Format: loadResultFormat, Name: "fs", Identity: "x#tools", Listed: true, Baselines: []string{"x#tools"}, catalog: s}.encode()
	require.OK(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"format":2}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseLoadResult(data)
		if err != nil {
			if !known(err) {
				t.Errorf("error %v is neither ErrUnusable nor ErrNewer", err)
			}
			return
		}
		again, err := got.encode()
		if err != nil {
			return
		}
		if _, blob, _ := bytes.Cut(data, []byte("\n")); !bytes.HasSuffix(again, blob) {
			t.Error("encode returns another catalog than the parsed catalog")
		}
	})
}
