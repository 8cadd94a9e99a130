package request_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var ci = requesttest.Agent("ci")

// add adds a request at a time, and fails the test on an error.
func add(t *testing.T, a request.List, r request.Request, g request.Granted, now time.Time) (request.List, request.Request, bool) {
	t.Helper()
	next, held, added, err := a.Add(r, g, nil, now)
	require.OK(t, err)
	return next, held, added
}

func TestAskedAdd(t *testing.T) {
	access, call := requesttest.To("git", "push"), requesttest.OneCall("git", "push", `{"a":1}`)
	given := access
	given.ID, given.Ended, given.Expires = "R-00000000", noon, noon.Add(999*time.Hour) // which Add sets
	a, r, added := add(t, request.List{Agent: ci, Rev: 4}, given, request.Granted{}, noon)
	if !added || a.Rev != 4 || r.ID == given.ID || !r.Opened.Equal(noon) || !r.Expires.Equal(noon.Add(request.OpenFor)) || !r.Ended.IsZero() || r.Note != access.Note || r.OneCall() {
		t.Errorf("Add = %+v, added: %v, at rev %d", r, added, a.Rev)
	}
	if _, again, added := add(t, a, access, request.Granted{}, noon.Add(time.Hour)); added || again != r {
		t.Errorf("the same request again is %+v, added: %v; want %+v", again, added, r)
	}
	b, c, added := add(t, a, call, request.Granted{}, noon)
	if !added || !c.OneCall() || !c.Expires.Equal(noon.Add(request.ConfirmFor)) || len(b.List) != 2 || len(a.List) != 1 {
		t.Errorf("Add of a call = %+v, added: %v", c, added)
	}
	for name, other := range map[string]request.Request{
		"another server":  requesttest.To("github", "push"),
		"another tool":    requesttest.To("git", "pull"),
		"a prompt":        access.About(tool.ID{Server: "git", Name: "push", Kind: tool.Prompt}, requesttest.Hash),
		"another hash":    access.About(access.Item(), "b2"),
		"other arguments": requesttest.OneCall("git", "push", `{"a":2}`),
	} {
		if _, r, added := add(t, b, other, request.Granted{}, noon); !added {
			t.Errorf("%s was merged into %+v", name, r)
		}
	}
	withdrawn, err := a.Change(r.ID, func(r *request.Request) { r.Ended = noon })
	require.OK(t, err)
	decided, err := request.Granted{Agent: ci}.Add(request.Decide(r, request.Declined, 0, "kim", "", noon), false, noon)
	require.OK(t, err)
	for name, tt := range map[string]struct {
		a   request.List
		g   request.Granted
		now time.Time
	}{
		"withdrawn": {withdrawn, request.Granted{}, noon},
		"decided":   {a, decided, noon},
		"expired":   {a, request.Granted{}, noon.Add(request.OpenFor)},
	} {
		if _, again, added := add(t, tt.a, access, tt.g, tt.now); !added || again.ID == r.ID {
			t.Errorf("%s: got request %s, added: %v; want a new request", name, again.ID, added)
		}
	}
	if _, is := a.Open(access, request.Granted{}, r.Expires.Add(-1)); !is {
		t.Error("the request is not open just before it expires")
	}
}

// Texts have limits, and a fault names the field that cannot be stored.
func TestRequestCheck(t *testing.T) {
	for field, change := range map[string]func(*request.Request){
		"note":    func(r *request.Request) { r.Note = strings.Repeat("日", request.MaxNote+1) },
		"why":     func(r *request.Request) { r.Why = strings.Repeat("x", request.MaxNote+1) },
		"minutes": func(r *request.Request) { r.Minutes = request.MaxMinutes + 1 },
		"item":    func(r *request.Request) { r.Hash = "" },
	} {
		r := requesttest.To("git", "push")
		change(&r)
		if _, _, _, err := (request.List{Agent: ci}).Add(r, request.Granted{}, nil, noon); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Add = %v, want an error that names %s", err, field)
		}
	}
	for _, change := range []func(*request.Request){
		func(r *request.Request) { r.Note = "\xff" }, func(r *request.Request) { r.Why = "\xff" }, func(r *request.Request) { r.Minutes = -1 },
		func(r *request.Request) { r.Server = "" }, func(r *request.Request) { r.Tool = "" },
	} {
		r := requesttest.To("git", "push")
		change(&r)
		if _, _, _, err := (request.List{Agent: ci}).Add(r, request.Granted{}, nil, noon); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	r := requesttest.To("git", "push")
	r.Note, r.Why, r.Minutes = strings.Repeat("日", request.MaxNote), strings.Repeat("日", request.MaxNote), request.MaxMinutes
	if _, _, _, err := (request.List{Agent: ci}).Add(r, request.Granted{}, nil, noon); err != nil {
		t.Errorf("the longest note is refused: %v", err)
	}
}

func TestAskedChange(t *testing.T) {
	a, r, _ := add(t, request.List{Agent: ci}, requesttest.To("git", "push"), request.Granted{}, noon)
	b, err := a.Change(r.ID, func(r *request.Request) { r.Why = "due" })
	if held, _ := b.Find(r.ID); err != nil || held.Why != "due" || a.List[0].Why != "" {
		t.Errorf("Change = %+v, %v, of %+v", held, err, a.List)
	}
	if _, err := a.Change("R-00000000", func(*request.Request) { t.Error("something was changed") }); !errors.Is(err, request.ErrNotFound) {
		t.Errorf("Change of an unknown request = %v", err)
	}
	if _, err := a.Change(r.ID, func(r *request.Request) { r.ID = "x" }); err == nil {
		t.Error("an invalid change is accepted")
	}
}

// An agent cannot ask and withdraw forever, because people get a notice of each request.
func TestMaxWithdrawn(t *testing.T) {
	a, g, now := request.List{Agent: ci}, request.Granted{Agent: ci}, noon
	for range request.MaxOpen {
		var held request.Request
		a, held, _ = add(t, a, requesttest.To("git", "push"), g, now)
		now = now.Add(time.Second)
		var err error
		a, err = a.Change(held.ID, func(r *request.Request) { r.Ended = now })
		require.OK(t, err)
	}
	if _, _, added, err := a.Add(requesttest.To("git", "push"), g, nil, now); !errors.Is(err, request.ErrTooMany) || added {
		t.Errorf("a further request: %v, added %v", err, added)
	}
	if _, _, added, err := a.Add(requesttest.To("git", "push"), g, nil, now.Add(time.Hour)); err != nil || !added {
		t.Errorf("an hour later: %v, added %v", err, added)
	}
}

// An agent has a limited number of open requests. It may make a new one for each that is decided,
// withdrawn, expired or moot.
func TestMaxOpen(t *testing.T) {
	a, g := request.List{Agent: ci}, request.Granted{Agent: ci}
	for i := range request.MaxOpen {
		a, _, _ = add(t, a, requesttest.To("git", fmt.Sprint(i)), g, noon)
	}
	more := requesttest.To("git", "more")
	if _, _, added, err := a.Add(more, g, nil, noon); !errors.Is(err, request.ErrTooMany) || added {
		t.Errorf("Add of one more = %v, added: %v; want ErrTooMany", err, added)
	}
	if _, held, added := add(t, a, requesttest.To("git", "3"), g, noon); added || held.ID != a.List[3].ID {
		t.Errorf("Add of a request that is already open = %+v", held)
	}
	withdrawn, err := a.Change(a.List[2].ID, func(r *request.Request) { r.Ended = noon })
	require.OK(t, err)
	decided, err := g.Add(request.Decide(a.List[4], request.Approved, 0, "kim", "", noon), false, noon)
	require.OK(t, err)
	for name, try := range map[string]func() error{
		"withdrawn": func() error { _, _, _, err := withdrawn.Add(more, g, nil, noon); return err },
		"decided":   func() error { _, _, _, err := a.Add(more, decided, nil, noon); return err },
		"expired":   func() error { _, _, _, err := a.Add(more, g, nil, noon.Add(request.OpenFor)); return err },
		"moot": func() error {
			_, _, _, err := a.Add(more, g, func(r request.Request) bool { return r.Tool == "5" }, noon)
			return err
		},
	} {
		if err := try(); err != nil {
			t.Errorf("with one that is %s: %v", name, err)
		}
	}
}

// A full list drops decided requests, and never an open one.
func TestFullListKeepsOpenRequests(t *testing.T) {
	a, open, _ := add(t, request.List{Agent: ci}, requesttest.To("git", "open"), request.Granted{}, noon)
	g := request.Granted{Agent: ci}
	for i := range 50 {
		var r request.Request
		a, r, _ = add(t, a, requesttest.To("git", fmt.Sprint(i)), g, noon)
		var err error
		g, err = g.Add(request.Decide(r, request.Declined, 0, "kim", "", noon), false, noon)
		require.OK(t, err)
	}
	if _, is := a.Find(open.ID); !is || len(a.List) != 32 {
		t.Errorf("%d requests are kept, the open one: %v", len(a.List), is)
	}
}

func TestAdded(t *testing.T) {
	a, r, _ := add(t, request.List{Agent: ci}, requesttest.To("git", "push"), request.Granted{}, noon)
	a, c, _ := add(t, a, requesttest.OneCall("git", "push", "{}"), request.Granted{}, noon)
	large := []byte(strings.Repeat(" ", request.MaxArgs) + "1")
	for name, tt := range map[string]struct {
		id        string
		arguments []byte
		ok        bool
	}{
		"nothing": {"", nil, true}, "access": {r.ID, nil, true}, "a call": {c.ID, []byte("{}"), true}, "a call without arguments": {c.ID, nil, true},
		"the largest": {c.ID, large[1:], true}, "too large": {c.ID, large, false}, "another id": {"R-00000000", nil, false},
		"arguments of access": {r.ID, []byte("{}"), false}, "arguments of nothing": {"", []byte("{}"), false},
	} {
		if held, err := a.Added(tt.id, tt.arguments); (err == nil) != tt.ok || tt.ok && held.ID != tt.id {
			t.Errorf("%s: Added = %+v, %v", name, held, err)
		}
	}
}
