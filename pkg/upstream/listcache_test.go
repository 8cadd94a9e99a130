package upstream

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// If the caller already has the lists of a server, a load returns the outcome of a load that parses
// the lists, but without the definitions.
func TestLoadSame(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{
		"json":      {Protocols: upstreamtest.Modern},
		"a stream":  {Protocols: upstreamtest.Modern, SSE: true},
		"pages":     {Protocols: upstreamtest.Modern, PageSize: 1},
		"handshake": {Protocols: upstreamtest.Legacy, Sessions: true, PageSize: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := withItems(o)
				o.Tools = append(tools(3), json.RawMessage(`{"name":"not taken","description":9007199254740993}`))
				f := newFixture(t, Options{}, o)
				server := f.servers[0]
				// load returns the outcome of the next load, and checks it against the outcome of a
				// new client.
				load := func(step string, same bool) outcome.Outcome {
					t.Helper()
					got, want := f.load(), f.client(Options{}).Load(t.Context(), f.targets[0])
					if got.Same != same || want.Same || got.Lists != want.Lists || (got.Lists == "") != (len(want.Unread) > 0) {
						t.Errorf("%s: same %t, lists %q; want %t, %q", step, got.Same, got.Lists, same, want.Lists)
					}
					f.targets[0].Lists = got.Lists
					if same {
						if got.Tools != nil || got.Items != nil {
							t.Errorf("%s: an unchanged load has %d tools and %d items, want none", step, len(got.Tools), len(got.Items))
						}
						got.Same, got.Tools, got.Items = false, want.Tools, want.Items
					}
					got.CheckedAt, got.Duration, got.Memory = want.CheckedAt, want.Duration, want.Memory
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-parsed +got):\n%s", step, diff)
					}
					return got
				}
				list := func(n int) []json.RawMessage { return o.Tools[:n] }
				load("the first load", false)
				for len(f.targets[0].Lists) > 0 && f.nextID.Load() < 200 { // request ids of one, two and three digits
					load("no change", true)
				}
				before := f.targets[0].Lists
				f.targets[0].Lists = ""
				load("a caller without lists", false)
				f.targets[0].Lists = "other"
				load("a caller with other lists", false)

				server.SetTools(list(2))
				load("fewer tools", false)
				f.targets[0].Lists = before
				load("a caller with earlier lists", false)
				server.SetTools(o.Tools)
				load("all tools again", false)
				if f.targets[0].Lists != before {
					t.Errorf("digest of restored lists = %q, want %q", f.targets[0].Lists, before)
				}
				items := upstreamtest.Items{Prompts: o.Prompts, Resources: o.Resources, Templates: raws(`{"uriTemplate":"note://{other}","name":"any"}`)}
				server.SetItems(items)
				load("another template, the last of all", false)
				load("no change", true)
				items.Prompts = items.Prompts[:2]
				server.SetItems(items)
				load("one prompt less", false)
				items.Prompts = raws()
				server.SetItems(items)
				load("no prompts", false)
				load("no change", true)
				server.FailOn("resources/list", 2, upstreamtest.Status(500, ""))
				load("resources that cannot be read", false)
				load("readable resources again", false)
				load("no change", true)

				swapped := append([]json.RawMessage{}, o.Tools...)
				swapped[0], swapped[1] = swapped[1], swapped[0]
				server.SetTools(swapped)
				load("another order", false)
				time.Sleep(2 * maxDeclared)
				load("no change, after a new handshake", true)
			})
		})
	}
}
