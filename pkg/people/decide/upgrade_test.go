package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// run configures the server pg as the program npx with these arguments, and syncs. rest is the JSON
// after the servers.
func (f *fixture) run(args, rest string) {
	f.Put(config.Key, fmt.Sprintf(`{"mcpServers": {"pg": {"command": "npx", "args": [%s]}}%s}`, args, rest))
	f.Sync()
}

// upgraded returns a fixture where pg is version 1.2.4 of a package. In version 1.2.3 all of its
// tools were approved except shut, which is blocked. The tool off is disabled, the tool moved
// has changed, and the tool fresh is new.
func upgraded(t testing.TB) *fixture {
	f := newFixture(t)
	tool := gatewaytest.Tool
	read, drop := tool("read", "Reads.", gatewaytest.ReadOnly), tool("drop", "Drops.", "")
	shut, off := tool("shut", "Shuts.", ""), tool("off", "Off.", "")
	f.Serve("pg", read, drop, shut, off, tool("moved", "Moves.", ""))
	f.Forbid("")
	f.run(`"-y", "@acme/fs@1.2.3"`, "")
	f.mustDecide("pg:shut", approval.ActionBlock)
	f.mustDecide("pg:off", approval.ActionDisable)
	f.Serve("pg", read, drop, shut, off, tool("moved", "Moves all.", ""), tool("fresh", "New.", ""))
	f.run(`"-y", "@acme/fs@1.2.4"`, "")
	return f
}

// mustDecide decides as ann.
func (f *fixture) mustDecide(id, action string) {
	f.decided(id, decide.Decision{Action: action, Hash: f.Record(id).CurrentHash})
}

// offered returns what waits because a server is another version: "fs x@1 to x@2: pg:a fs:b".
func (f *fixture) offered() (all []string, items []decide.Item) {
	f.T.Helper()
	waiting := decide.Filter{Status: "pending_approval", Mine: "yes"}
	list, err := f.service.List(f.ctx, waiting, decide.Paging{Limit: 1})
	require.OK(f.T, err)
	for _, up := range list.Upgrades {
		line := up.Server + " " + strings.Join(up.Before, " and ") + " to " + up.Now + ":"
		for _, row := range up.Tools {
			line += " " + row.ID
			items = append(items, decide.Item{ID: gatewaytest.ID(f.T, row.ID), Hash: row.Hash, Rev: row.Rev})
		}
		all = append(all, line)
	}
	return all, items
}

func (f *fixture) carry(items ...decide.Item) (done int, refused []string) {
	f.T.Helper()
	results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: decide.ActionCarry, Note: "same code"}, items)
	require.OK(f.T, err)
	for _, r := range results {
		if r.Err != nil {
			refused = append(refused, r.Err.Detail)
		} else {
			done++
		}
	}
	return done, refused
}

func (f *fixture) statuses() string {
	f.T.Helper()
	list, err := f.service.List(f.ctx, decide.Filter{Server: "pg"}, decide.Paging{Limit: 50})
	require.OK(f.T, err)
	var out []string
	for _, row := range list.Tools {
		out = append(out, row.Name+" "+row.Status)
	}
	return strings.Join(out, ", ")
}

func TestCarry(t *testing.T) {
	f := upgraded(t)
	const waits = "drop pending_approval, fresh pending_approval, moved pending_approval, off disabled_by_user, read pending_approval, shut disabled_by_user"
	if got := f.statuses(); got != waits {
		t.Errorf("another version: %s", got)
	}
	f.Sync()
	all, items := f.offered()
	if got := strings.Join(all, "; "); got != "pg @acme/fs@1.2.3 to @acme/fs@1.2.4: pg:drop pg:read" || f.statuses() != waits {
		t.Fatalf("offered: %s; %s", got, f.statuses())
	}
	if done, refused := f.carry(items...); done != 2 {
		t.Errorf("refused: %q", refused)
	}
	if got := f.statuses(); got != strings.NewReplacer("drop pending_approval", "drop callable", "read pending_approval", "read callable").Replace(waits) {
		t.Errorf("carried: %s", got)
	}
	lines, err := f.Approvals.Audit(t.Context(), "pg", approval.Cursor{}, 1)
	require.OK(t, err)
	const note = "approved in @acme/fs@1.2.3, the same definition in @acme/fs@1.2.4: same code"
	if e, r := lines[0], f.Record(lines[0].ID().String()); e.Action != "approve" || e.Actor != "ann" || e.Note != note || e.Hash != r.ApprovedHash || r.Note != "same code" {
		t.Errorf("audit line: %+v of %+v", e, r)
	}
	f.decided("pg:read", decide.Decision{Action: approval.ActionUndo, Rev: f.Record("pg:read").Rev})
	if all, _ := f.offered(); strings.Join(all, "; ") != "pg @acme/fs@1.2.3 to @acme/fs@1.2.4: pg:read" {
		t.Errorf("after an undo: %q", all)
	}
}

// An item that waits for another reason than the version is not carried over, even if the request
// names it.
func TestCarryRefuses(t *testing.T) {
	f := upgraded(t)
	_, items := f.offered()
	for _, id := range []string{"pg:moved", "pg:fresh", "pg:off", "pg:shut"} {
		r := f.Record(id)
		done, refused := f.carry(decide.Item{ID: r.ID(), Hash: r.CurrentHash, Rev: r.Rev})
		if done > 0 || !strings.Contains(refused[0], "nothing was decided") || f.Record(id).Rev != r.Rev {
			t.Errorf("%s: %d, %q", id, done, refused)
		}
	}
	f.Put(config.Key, `{"mcpServers": {"pg": {"command": "npx", "args": ["other"]}}}`)
	f.States.Refresh(t.Context()) // before any sync
	if all, _ := f.offered(); all != nil {
		t.Errorf("offered for another program: %q", all)
	}
	f.run(`"-y", "@acme/fs@1.2.4"`, "")
	f.ctx = decide.WithActor(t.Context(), decide.Actor{Name: "kim", Rights: identity.Rights{Role: identity.Approver, Servers: []string{"db"}}})
	if all, _ := f.offered(); all != nil {
		t.Errorf("offered to a person who may not decide about it: %q", all)
	}
	if done, refused := f.carry(items...); done > 0 || !strings.Contains(refused[0], "you decide about items of db") {
		t.Errorf("by somebody else: %q", refused)
	}
	f.ctx = decide.WithActor(t.Context(), decide.Actor{Name: "ann", Rights: identity.Everything()})
	f.Serve("pg", gatewaytest.Tool("read", "Reads more.", gatewaytest.ReadOnly))
	f.Sync()
	done, refused := f.carry(items...) // read has changed since it was listed, and drop is no longer listed
	if done != 1 || len(refused) != 1 || !strings.Contains(refused[0], "the definition changed since it was shown") {
		t.Errorf("after a change: %d, %q", done, refused)
	}
}

// A version counts as another version of the same server only if nothing else differs.
func TestCarryOnlyToAnotherVersion(t *testing.T) {
	for args, want := range map[string]bool{
		`"-y", "@acme/fs@2.0.0"`:                             true,
		`"-y", "@evil/fs@1.2.4"`:                             false,
		`"-y", "@acme/fs@1.2.4", "/etc"`:                     false,
		`"-y", "--registry=https://r.example", "@acme/fs@2"`: false,
	} {
		f := upgraded(t)
		f.run(args, "")
		all, _ := f.offered()
		if got := slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "pg:read") }); got != want {
			t.Errorf("%s: offered %q", args, all)
		}
		f.run(`"-y", "@acme/fs@1.2.4"`, "")
		if all, _ := f.offered(); (len(all) > 0) != want {
			t.Errorf("back from %s: offered %q", args, all)
		}
	}
}

func TestCarryByTwo(t *testing.T) {
	f := upgraded(t)
	f.run(`"-y", "@acme/fs@1.2.4"`, `, "review": {"four_eyes": "destructive"}`)
	f.Decide.Issuer = true
	f.Open()
	f.service = f.Console.Service
	f.by("kim", "sub-1")
	_, items := f.offered()
	if done, refused := f.carry(items...); done != 2 {
		t.Errorf("the first: %q", refused)
	}
	all, items := f.offered()
	if len(all) != 1 || !strings.HasSuffix(all[0], ": pg:drop") || f.Record("pg:drop").State != approval.Pending {
		t.Errorf("after the first of two people: %q", all)
	}
	if done, _ := f.carry(items...); done != 0 {
		t.Error("one person counts as two people")
	}
	f.by("lee", "sub-2")
	if done, refused := f.carry(items...); done != 1 || f.Record("pg:drop").State != approval.Approved {
		t.Errorf("the second: %q", refused)
	}
}
