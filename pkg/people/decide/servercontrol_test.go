package decide_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// control is a ServerControl with two messages of the server fs.
type control struct{ restarted []string }

func (*control) Messages(server string, after int64) []upstream.Message {
	all := []upstream.Message{
		{Number: 1 << 60, At: time.Unix(1, 0), Kind: "stderr", Text: "first", Times: 1},
		{
			Number: 1<<60 + 1,
			At:     time.Unix(2, 0),
			Kind:   "log",
			Level:  "error",
			Text:   "second",
			Times:  3,
		},
	}
	return slices.DeleteFunc(all, func(m upstream.Message) bool {
		return server != "fs" || m.Number <= after
	})
}

func (*control) Activity(string) upstream.Activity {
	return upstream.Activity{
		Loads:       2,
		FailedLoads: 1,
		Calls:       3,
		P95:         41.6,
		LastError:   "http status 500",
	}
}

func (c *control) Restart(server string) int {
	c.restarted = append(c.restarted, server)
	return 2
}

func TestServerControl(t *testing.T) {
	d, c := admintest.New(t), &control{}
	d.Decide.Servers = c
	d.Open()
	f := fixtureOf(d)
	got, err := f.service.ServerMessages(f.ctx, "fs", "")
	if err != nil || len(got.Messages) != 2 || got.Messages[0].Times != 0 ||
		got.Messages[1].Times != 3 {
		t.Fatalf("messages %+v, %v", got, err)
	}
	later, err := f.service.ServerMessages(f.ctx, "fs", got.Messages[0].Number)
	if err != nil || len(later.Messages) != 1 || later.Messages[0].Text != "second" {
		t.Errorf("after the first message: %+v, %v", later, err)
	}
	done, err := f.service.RestartServer(f.ctx, "fs")
	if err != nil || done.Programs != 2 || done.Outcome == nil ||
		done.Outcome.Status != "available" {
		t.Errorf("restart %+v, %v", done, err)
	}
	isRestart := func(l audit.Line) bool {
		return l.Action == audit.ActionRestarted && l.Subject == "server:fs" && l.Actor == "ann"
	}
	if !slices.Equal(c.restarted, []string{"fs"}) ||
		!slices.ContainsFunc(f.Deeds.Lines(), isRestart) {
		t.Errorf("restarted %q; the audit has %+v", c.restarted, f.Deeds.Lines())
	}
	for name, err := range map[string]error{
		"unknown server":  second(f.service.RestartServer(f.ctx, "nope")),
		"its messages":    second(f.service.ServerMessages(f.ctx, "nope", "")),
		"no number":       second(f.service.ServerMessages(f.ctx, "fs", "x")),
		"another process": second(newFixture(t).service.RestartServer(f.ctx, "fs")),
	} {
		if e, ok := errors.AsType[*decide.Error](err); !ok ||
			e.Status/100 != 4 && e.Status != http.StatusNotImplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(c.restarted) != 1 {
		t.Errorf("a refused restart restarted %q", c.restarted)
	}
}

func second[T any](_ T, err error) error { return err }

// Only operators see a server's last message in lists, and its last error.
func TestLastMessage(t *testing.T) {
	d := admintest.New(t)
	d.Decide.Servers = &control{}
	d.Open()
	f := fixtureOf(d)
	seen := map[identity.Role]string{identity.Operator: "second", identity.Approver: ""}
	for role, want := range seen {
		ctx := decide.WithActor(
			t.Context(),
			decide.Actor{Name: "ann", Rights: identity.Rights{Role: role}},
		)
		all, _, err := f.service.Servers(ctx, decide.Paging{Limit: 50})
		require.OK(t, err)
		i := slices.IndexFunc(all, func(s decide.Server) bool { return s.Name == "fs" })
		if got := all[i].LastMessage; got != want {
			t.Errorf("role %v sees the message %q, want %q", role, got, want)
		}
		one, err := f.service.Server(ctx, "fs")
		require.OK(t, err)
		a := one.Activity
		if a.LoadsOK() != 1 || a.P95 != 42 || (a.LastError != "") != (want != "") {
			t.Errorf("role %v sees the activity %+v", role, a)
		}
	}
}
