package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// A readCounter counts the reads of a gateway.
type readCounter struct {
	gateway.Approvals
	reads int
	keys  []document.Key
}

func (c *readCounter) GetWith(
	ctx context.Context,
	id tool.ID,
	keys ...document.Key,
) (approval.Record, []document.Doc, error) {
	c.reads++
	c.keys = append(c.keys, keys...)
	return c.Approvals.GetWith(ctx, id, keys...)
}

func (c *readCounter) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	c.reads++
	c.keys = append(c.keys, keys...)
	return c.Approvals.Docs(ctx, keys...)
}

// A connectedUpstream gets a token for each call, as the client does for a connected server.
type connectedUpstream struct {
	gateway.Upstream
	signIns *connection.Service
}

func (u connectedUpstream) Call(
	ctx context.Context,
	t upstream.Target,
	c upstream.Call,
) (json.RawMessage, error) {
	if t.Connected {
		if _, err := u.signIns.Token(ctx, oauth.Server{Name: t.ID, URL: t.URL, Settings: *t.SignIn}); err != nil {
			return nil, err
		}
	}
	return u.Upstream.Call(ctx, t, c)
}

// A request to a connected server reads the sign-in together with the record of the item: one more
// document, but no additional read. Requests to other servers read the same as without sign-ins.
func TestReadsOfSignIn(t *testing.T) {
	const address = "https://open.example.com/mcp" // of the fixture
	counts := map[string]map[string][2]int{}       // reads and documents of each attempt
	for name, o := range map[string]struct{ able, connected bool }{
		"cannot sign in": {}, "not connected": {able: true}, "connected": {true, true}, "was connected, and cannot sign in": {false, true},
	} {
		gw := everyItem(t)
		gw.ByName["open"].Outcome = outcome.Outcome{Connected: o.connected}
		gw.Options.SignIns = o.able
		gw.Restart()
		gw.Sync()
		docs := &documenttest.Store{}
		signIns := connection.New(connection.Options{Docs: noReads{docs, t}, Now: gw.Clock.Now})
		reads := &readCounter{Approvals: gw.Approvals}
		up := gateway.Upstream(gw.Upstream)
		if o.able {
			up = connectedUpstream{up, signIns}
		}
		gw.MCP = gateway.New(gw.States, reads, up, &gw.Options)
		counts[name] = map[string][2]int{}
		for _, a := range attempts {
			if _, err := a.do(gw); err != nil {
				t.Fatalf("%s, %s: %v", name, a.name, err)
			}
			reads.reads, reads.keys = 0, nil
			if _, err := a.do(gw); err != nil {
				t.Fatalf("%s, %s: %v", name, a.name, err)
			}
			counts[name][a.name] = [2]int{reads.reads, len(reads.keys)}
			key := connection.Key("open", address)
			if got := slices.Contains(reads.keys, key); got != (o.able && o.connected) {
				t.Errorf("%s, %s: the sign-in is read: %t", name, a.name, got)
			}
		}
	}
	for _, a := range attempts {
		base, with := counts["cannot sign in"][a.name], counts["connected"][a.name]
		for _, name := range []string{"not connected", "was connected, and cannot sign in"} {
			if counts[name][a.name] != base {
				t.Errorf(
					"%s, %s: %d reads and documents, want %d",
					name,
					a.name,
					counts[name][a.name],
					base,
				)
			}
		}
		if with[0] != base[0] || with[1] != base[1]+1 {
			t.Errorf("%s with a sign-in: %d reads and documents, without %d", a.name, with, base)
		}
	}
}

// noReads is a store that fails the test if it is read.
type noReads struct {
	document.Store
	t *testing.T
}

func (n noReads) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	n.t.Errorf("the call reads %v again for its token", keys)
	return n.Store.Docs(ctx, keys...)
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
