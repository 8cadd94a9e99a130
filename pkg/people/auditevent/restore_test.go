package auditevent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// noon is the time of the first lost write.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// A loss is a store that lost data, and an audit that still has it.
type loss struct {
	t     *testing.T
	store *bolt.Store
	path  string // path of the audit
	audit *audit.Dir
}

func newLoss(t *testing.T) *loss {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "approvals.db"), nil)
	require.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	l := &loss{t: t, store: s, path: filepath.Join(t.TempDir(), "audit")}
	l.audit, err = audit.OpenDir(l.path, nil)
	require.OK(t, err)
	t.Cleanup(func() { _ = l.audit.Close() })
	return l
}

// did writes an event. Its time is minute minutes after noon.
func (l *loss) did(minute int, event audit.Line) {
	l.t.Helper()
	event.V, event.Kind, event.Actor, event.Time = audit.Version, audit.KindEvent, "ann", noon.Add(time.Duration(minute)*time.Minute)
	require.OK(l.t, l.audit.Write(l.t.Context(), event))
}

// restore runs Restore, and returns the actions that apply again.
func (l *loss) restore() (closing []string) {
	l.t.Helper()
	snap, err := catalog.Build(catalog.Input{})
	require.OK(l.t, err)
	p := auditevent.Restorer{Audit: audit.Folder(l.path), Approvals: l.store, Stops: stop.NewStore(l.store), Tokens: token.NewStore(l.store), Requests: request.NewStore(l.store, nil), Now: time.Now}
	out, err := p.Restore(l.t.Context(), snap, "kim", nil)
	require.OK(l.t, err)
	for _, a := range out.Closing {
		closing = append(closing, a.About+" "+a.Action)
	}
	return closing
}

func (l *loss) stopped() (list []string) {
	l.t.Helper()
	held, err := stop.Read(l.t.Context(), l.store)
	require.OK(l.t, err)
	for _, s := range held.List {
		list = append(list, s.String()+" "+s.Note())
	}
	return list
}

func TestRestoreStops(t *testing.T) {
	const no = "not a valid reason \u2028"
	begin := func(subject string) audit.Line { return audit.Line{Action: "stop", Subject: subject, Note: "it loops"} }
	end := func(subject string) audit.Line { return audit.Line{Action: "stop_undone", Subject: subject} }
	for name, test := range map[string]struct {
		did  func(l *loss)
		want []string
	}{
		"each kind of target": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.did(2, begin("agent:token:bot"))
			l.did(3, begin("all"))
		}, []string{`server "git" stopped by ann: it loops`, `agent "token:bot" stopped by ann: it loops`, "everything stopped by ann: it loops"}},
		"undone": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.did(2, end("server:git"))
		}, nil},
		"undone, stopped again": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.did(2, end("server:git"))
			l.did(3, begin("server:git"))
		}, []string{`server "git" stopped by ann: it loops`}},
		"both at the same time": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.did(1, end("server:git"))
		}, []string{`server "git" stopped by ann: it loops`}},
		"undone after a gap": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.did(2, end("server:other"))
			l.did(3, end("server:git"))
			l.spoil("other", "these")
		}, []string{`server "git" stopped by ann: it loops`}},
		"an invalid target": {func(l *loss) {
			l.did(1, begin("token:git"))
			l.did(1, begin("server:"))
			l.did(1, begin("server:*"))
		}, nil},
		"an invalid reason": {func(l *loss) {
			l.did(1, audit.Line{Action: "stop", Subject: "all", Note: no + strings.Repeat("x", stop.MaxReason)})
		}, []string{"everything stopped by ann: stopped before the approvals were lost"}},
		"the store has the stop": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.put(stop.Stops{List: []stop.Stop{{Target: stop.Target{Server: "git"}, Reason: "first", By: "bob", At: noon}}})
		}, []string{`server "git" stopped by bob: first`}},
		"the store has the undo": {func(l *loss) {
			l.did(1, begin("server:git"))
			l.put(stop.Stops{Ended: []stop.Ended{{Target: stop.Target{Server: "git"}, At: noon.Add(time.Minute - time.Second)}}})
		}, nil},
		"the store has the undo of an earlier stop": {func(l *loss) {
			l.did(10, begin("server:git"))
			l.put(stop.Stops{Ended: []stop.Ended{{Target: stop.Target{Server: "git"}, At: noon}}})
		}, []string{`server "git" stopped by ann: it loops`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			test.did(l)
			l.restore()
			if diff := cmp.Diff(test.want, l.stopped()); diff != "" {
				t.Errorf("stopped (-want +got):\n%s", diff)
			}
			if again := l.restore(); again != nil {
				t.Errorf("a second Restore repeats %v", again)
			}
		})
	}
}

func (l *loss) put(s stop.Stops) {
	l.t.Helper()
	_, err := stop.NewStore(l.store).PutStops(l.t.Context(), s)
	require.OK(l.t, err)
}

// spoil changes a text in the audit.
func (l *loss) spoil(old, new string) {
	l.t.Helper()
	require.OK(l.t, l.audit.Close())
	files, err := filepath.Glob(filepath.Join(l.path, "*.jsonl"))
	require.OK(l.t, err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		require.OK(l.t, err)
		require.OK(l.t, os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600))
	}
}

// A token that was revoked after the store was copied is valid again in the copy, and Restore
// revokes it.
func TestRestoreTokens(t *testing.T) {
	l := newLoss(t)
	made := func(id string) {
		t.Helper()
		_, err := token.NewStore(l.store).PutToken(t.Context(), token.Token{
			ID: id, Hash: strings.Repeat("a", 64), Name: "ci", Servers: []string{"*"}, Tiers: []string{"read"}, CreatedBy: "ann", CreatedAt: noon, ExpiresAt: time.Now().Add(time.Hour),
		})
		require.OK(t, err)
	}
	gone, good := strings.Repeat("ab", 10), strings.Repeat("0", 20)
	made(gone)
	made(good)
	l.did(1, audit.Line{Action: "token_made", Subject: "token:ci", Note: "id " + good + "; servers *"})
	l.did(2, audit.Line{Action: "token_revoked", Subject: "token:ci", Note: "id " + gone})
	l.did(3, audit.Line{Action: "token_revoked", Subject: "token:ci", Note: "id of another store"})
	if diff := cmp.Diff([]string{"token:ci token_revoked"}, l.restore()); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	for id, live := range map[string]bool{gone: false, good: true} {
		if x, err := token.NewStore(l.store).Token(t.Context(), id); err != nil || x.Live(time.Now()) != live {
			t.Errorf("token %s: %+v, %v", id, x, err)
		}
	}
	if again := l.restore(); again != nil {
		t.Errorf("a second Restore repeats %v", again)
	}
}

// A grant that ended after the store was copied is open again in the copy, and Restore ends it.
func TestRestoreGrants(t *testing.T) {
	l := newLoss(t)
	now := time.Now()
	requests, agent := request.NewStore(l.store, nil), request.Agent{ID: "token:ci", Way: identity.WayToken}
	var ids []string
	for i := range 3 {
		asked := requesttest.To("git", fmt.Sprint("push", i))
		_, err := request.ChangeList(t.Context(), requests, agent, func(a request.List) (request.List, string, json.RawMessage, error) {
			next, r, _, err := a.Add(asked, request.Granted{}, func(request.Request) bool { return false }, now)
			asked = r
			return next, r.ID, nil, err
		})
		require.OK(t, err)
		ids = append(ids, asked.ID)
		verdict := []request.Verdict{request.Allowed, request.Allowed, request.Declined}[i]
		_, err = requests.ChangeGranted(t.Context(), agent, func(g request.Granted) (request.Granted, error) {
			return g.Add(request.Decide(asked, verdict, 60, "kim", "", now), false, now)
		})
		require.OK(t, err)
	}
	for _, id := range append(ids, "R-none") {
		if id != ids[1] {
			l.did(1, audit.Line{Action: "request_decided", Tool: "git:push0", Request: id, Subject: "agent:token:ci", Note: "revoked: enough"})
		}
	}
	l.did(2, audit.Line{Action: "request_decided", Tool: "git:push1", Request: ids[1], Subject: "agent:token:ci", Note: "allowed for 1 hour: it was not revoked"})
	if diff := cmp.Diff([]string{"git:push0 for agent:token:ci revoked"}, l.restore()); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	g, err := requests.Granted(t.Context(), agent.Key())
	require.OK(t, err)
	for i, want := range []request.Verdict{request.Revoked, request.Allowed, request.Declined} {
		if d, _ := g.Find(ids[i]); d.Verdict != want {
			t.Errorf("request %d is %s, want %s", i, d.Verdict, want)
		}
	}
	if again := l.restore(); again != nil {
		t.Errorf("a second Restore repeats %v", again)
	}
}

// The result lists the locking actions about items that neither the store nor the catalog has. A
// line with a shortened id is matched by the shortened id.
func TestRestoreUnknownAndLongNames(t *testing.T) {
	l := newLoss(t)
	uri := "https://example.com/" + strings.Repeat("x", 600)
	hash := tool.Hash(strings.Repeat("ab", 32))
	r := approval.Record{Server: "web", Tool: uri, Kind: tool.Resource, CurrentHash: hash, ApprovedHash: hash, State: approval.Approved}
	_, err := l.store.Put(t.Context(), r, nil)
	require.OK(t, err)
	later := int(time.Since(noon)/time.Minute) + 10
	l.did(later, audit.Line{Action: "block", Tool: r.ID().String(), Hash: hash})
	l.did(later+1, audit.Line{Action: "disable", Tool: "web:gone", Hash: hash})
	l.did(later+1, audit.Line{Action: "block", Tool: "other:gone", Hash: "no hash"})
	snap, err := catalog.Build(catalog.Input{})
	require.OK(t, err)
	p := auditevent.Restorer{Audit: audit.Folder(l.path), Approvals: l.store, Now: time.Now}
	out, err := p.Restore(t.Context(), snap, "kim", nil)
	require.OK(t, err)
	if len(out.Closing) != 1 || out.Closing[0].About != r.ID().String() || len(out.Unknown) != 1 || out.Unknown[0].About != "web:gone" {
		t.Errorf("Restore = %+v", out)
	}
	if got, err := l.store.Get(t.Context(), r.ID()); err != nil || got.State != approval.Blocked {
		t.Errorf("the resource is %+v, %v", got, err)
	}
}
