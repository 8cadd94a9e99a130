package request_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var verdicts = []request.Verdict{request.Approved, request.Allowed, request.Confirmed, request.Declined, request.Revoked}

// asked returns a request for which the verdict is possible.
func asked(v request.Verdict) request.Request {
	r := requesttest.To("git", "push")
	if v == request.Confirmed {
		r.Args = call
	}
	r.ID = request.NewID()
	return r
}

// A person decides about a request once. Afterwards only two verdicts are possible: to end a grant,
// and to approve again if again is set.
func TestDecidedOnce(t *testing.T) {
	for _, first := range verdicts[:4] {
		r := asked(first)
		g, err := request.Granted{Agent: ci}.Add(request.Decide(r, first, 60, "kim", "", noon), false, noon)
		require.OK(t, err)
		for _, then := range verdicts {
			for _, again := range []bool{false, true} {
				can := then == request.Revoked && (first == request.Allowed || first == request.Confirmed) || again && first == request.Approved
				if then == request.Allowed && r.OneCall() || then == request.Confirmed && !r.OneCall() {
					continue // this verdict does not fit the request
				}
				d := request.Decide(r, then, 60, "ada", "", noon.Add(time.Second))
				next, err := g.Add(d, again, noon.Add(time.Second))
				if can != (err == nil) || !can && !errors.Is(err, request.ErrDecided) || len(next.List) != 1 || can && next.List[0].By != "ada" || !can && next.List[0].By != "kim" {
					t.Errorf("%s after %s, again: %v: %v, %+v", then, first, again, err, next.List)
				}
			}
		}
		if g = g.Without(r.ID); g.Decided(r.ID) || len(g.List) != 0 {
			t.Errorf("%s was undone, but is still there: %+v", first, g.List)
		}
	}
	r := asked(request.Allowed)
	if _, err := (request.Granted{Agent: ci}).Add(request.Decide(r, request.Revoked, 0, "kim", "", noon), false, noon); !errors.Is(err, request.ErrNotFound) {
		t.Errorf("Revoked without a grant = %v", err)
	}
	if _, err := (request.Granted{Agent: ci}).Add(request.Decide(r, "yes", 0, "kim", "", noon), false, noon); err == nil || !strings.Contains(err.Error(), "approved, allowed") {
		t.Errorf("an unknown verdict = %v, want an error that lists the verdicts", err)
	}
}

func TestDecide(t *testing.T) {
	now := noon.Add(123456789).In(time.FixedZone("", 3600))
	for v, want := range map[request.Verdict]time.Duration{
		request.Approved: 7 * 24 * time.Hour, request.Allowed: 90 * time.Minute, request.Confirmed: time.Hour, request.Declined: 24 * time.Hour, request.Revoked: 7 * 24 * time.Hour,
	} {
		r := asked(v)
		d := request.Decide(r, v, 90, "kim", "why", now)
		if d.Ends.Sub(d.At) != want || !d.At.Equal(now.Truncate(time.Microsecond)) || d.At.Location() != time.UTC ||
			d.Item() != r.Item() || d.Hash != r.Hash || d.Args != r.Args || d.By != "kim" || d.Reason != "why" || d.Request != r.ID || d.Verdict != v {
			t.Errorf("Decide %s = %+v", v, d)
		}
	}
}

func TestGrantedCheck(t *testing.T) {
	everybody := request.Agent{Way: identity.WayNone, ID: "anonymous"}
	for name, tt := range map[string]struct {
		agent  request.Agent
		v      request.Verdict
		change func(*request.Decision)
		ok     bool
	}{
		"the valid decision":         {ci, request.Allowed, func(*request.Decision) {}, true},
		"a month":                    {ci, request.Allowed, func(d *request.Decision) { d.Ends = d.At.Add(30 * 24 * time.Hour) }, true},
		"more than a month":          {ci, request.Allowed, func(d *request.Decision) { d.Ends = d.At.Add(30*24*time.Hour + 1) }, false},
		"no time":                    {ci, request.Allowed, func(d *request.Decision) { d.Ends = d.At }, false},
		"allowed to everybody":       {everybody, request.Allowed, func(*request.Decision) {}, false},
		"everybody's call":           {everybody, request.Confirmed, func(*request.Decision) {}, true},
		"a call for longer":          {ci, request.Confirmed, func(d *request.Decision) { d.Ends = d.Ends.Add(1) }, false},
		"every call confirmed":       {ci, request.Confirmed, func(d *request.Decision) { d.Args = "" }, false},
		"one call allowed":           {ci, request.Allowed, func(d *request.Decision) { d.Args = call }, false},
		"without a person":           {ci, request.Declined, func(d *request.Decision) { d.By = "" }, false},
		"about no hash":              {ci, request.Approved, func(d *request.Decision) { d.Hash = "" }, false},
		"about no tool":              {ci, request.Approved, func(d *request.Decision) { d.Tool = "" }, false},
		"about no server":            {ci, request.Approved, func(d *request.Decision) { d.Server = "" }, false},
		"at no time":                 {ci, request.Declined, func(d *request.Decision) { d.At = time.Time{} }, false},
		"without an end":             {ci, request.Declined, func(d *request.Decision) { d.Ends = time.Time{} }, false},
		"with an invalid request id": {ci, request.Declined, func(d *request.Decision) { d.Request = "R-1" }, false},
		"an id in small letters":     {ci, request.Declined, func(d *request.Decision) { d.Request = "r-7kq2m4xd" }, false},
		"the longest reason":         {ci, request.Declined, func(d *request.Decision) { d.Reason = strings.Repeat("日", request.MaxReason) }, true},
		"too long a reason":          {ci, request.Declined, func(d *request.Decision) { d.Reason = strings.Repeat("x", request.MaxReason+1) }, false},
		"a reason that is not UTF-8": {ci, request.Declined, func(d *request.Decision) { d.Reason = "\xff" }, false},
	} {
		d := request.Decide(asked(tt.v), tt.v, 60, "kim", "", noon)
		tt.change(&d)
		if err := (request.Granted{Agent: tt.agent, List: []request.Decision{d}}).Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeclined(t *testing.T) {
	r := asked(request.Declined)
	d := request.Decide(r, request.Declined, 0, "kim", "use staging", noon)
	g, err := request.Granted{Agent: ci}.Add(d, false, noon)
	require.OK(t, err)
	if got, is := g.Declined(requesttest.To("git", "push"), noon.Add(24*time.Hour-1)); !is || got != d {
		t.Errorf("Declined = %+v, %v", got, is)
	}
	for name, other := range map[string]request.Request{
		"another tool": requesttest.To("git", "pull"), "another hash": r.About(r.Item(), "b2"), "one call": requesttest.OneCall("git", "push", "{}"),
	} {
		if _, is := g.Declined(other, noon); is {
			t.Errorf("%s is declined", name)
		}
	}
	if _, is := g.Declined(r, noon.Add(24*time.Hour)); is {
		t.Error("a refusal of yesterday still applies")
	}
}

// An agent has a limited number of grants. At the limit, nobody can grant more before a grant ends.
// All other decisions are still possible.
func TestFull(t *testing.T) {
	for v, most := range map[request.Verdict]int{request.Allowed: 32, request.Confirmed: 64} {
		g := request.Granted{Agent: ci}
		var err error
		for range most {
			g, err = g.Add(request.Decide(asked(v), v, 60, "kim", "", noon), false, noon)
			require.OK(t, err)
		}
		one := request.Decide(asked(v), v, 60, "kim", "", noon)
		if next, err := g.Add(one, false, noon); !errors.Is(err, request.ErrFull) || len(next.List) != most {
			t.Errorf("over the limit, %s = %v", v, err)
		}
		if _, err := g.Add(one, false, noon.Add(time.Hour)); err != nil {
			t.Errorf("after the other grants have ended, %s = %v", v, err)
		}
		revoked := g.List[0]
		revoked.Verdict = request.Revoked
		less, err := g.Add(revoked, false, noon)
		require.OK(t, err)
		if _, err := less.Add(one, false, noon); err != nil {
			t.Errorf("after one grant was revoked, %s = %v", v, err)
		}
		for range 200 { // however much an agent asks, people can decline
			for _, v := range []request.Verdict{request.Declined, request.Approved} {
				g, err = g.Add(request.Decide(asked(v), v, 0, "ada", strings.Repeat("日", request.MaxReason), noon), false, noon)
				require.OK(t, err)
			}
		}
		held := 0
		for _, d := range g.List {
			if d.Verdict == v {
				held++
			}
		}
		if _, _, err := g.Encode(); err != nil || held != most {
			t.Errorf("after many other decisions %d of %d %s are left, %v", held, most, v, err)
		}
	}
}
