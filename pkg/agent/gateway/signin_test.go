package gateway_test

import (
	"context"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// A request to a connected server reads the sign-in together with the record of the item: one more
// document, but no additional read. Requests to other servers read the same as without sign-ins.
func TestReadsOfSignIn(t *testing.T) {
	type reads struct{ records, reads, documents int }
	signIn := connection.Key("open", "https://open.example.com/mcp")
	counts := map[string]map[string]reads{} // by case and by name of the attempt
	for name, o := range map[string]struct{ able, connected bool }{
		"cannot sign in": {false, true}, "not connected": {true, false}, "connected": {true, true},
	} {
		gw := everyItem(t)
		gw.ByName["open"].Outcome = outcome.Outcome{Connected: o.connected}
		gw.Options.SignIns = o.able
		gw.Restart()
		gw.Sync()
		var n reads
		var keys []document.Key
		gw.Approvals.OnGet = func(context.Context, tool.ID) error { n.records++; return nil }
		gw.Approvals.OnDocs = func(_ context.Context, more []document.Key) error {
			n.reads++
			keys = append(keys, more...)
			return nil
		}
		counts[name] = map[string]reads{}
		for _, a := range attempts {
			n, keys = reads{}, nil
			if _, err := a.do(gw); err != nil {
				t.Fatalf("%s, %s: %v", name, a.name, err)
			}
			n.documents = len(keys)
			counts[name][a.name] = n
			if got := slices.Contains(keys, signIn); got != (o.able && o.connected) {
				t.Errorf("%s, %s: the sign-in is read: %t", name, a.name, got)
			}
		}
	}
	for _, a := range attempts {
		want := counts["cannot sign in"][a.name]
		if got := counts["not connected"][a.name]; got != want {
			t.Errorf("%s without a sign-in: %+v, want %+v", a.name, got, want)
		}
		want.documents++
		if got := counts["connected"][a.name]; got != want {
			t.Errorf("%s with a sign-in: %+v, want %+v", a.name, got, want)
		}
	}
}

// If the gateway can sign in, a call of a server without a sign-in needs no additional allocation.
func TestAllocationsWithoutSignIn(t *testing.T) {
	allocs := map[bool]float64{}
	for _, able := range []bool{false, true} {
		gw := everyItem(t)
		gw.Options.SignIns = able
		gw.Restart()
		gw.Sync()
		allocs[able] = testing.AllocsPerRun(200, func() {
			if _, err := gw.Try(`{"name":"call_tool_read","arguments":{"name":"open:act"}}`); err != nil {
				t.Fatal(err)
			}
		})
	}
	if allocs[true] > allocs[false] {
		t.Errorf("%v allocations with sign-ins, %v without", allocs[true], allocs[false])
	}
}
