package approval_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// started returns an observation of the definition with this hash. Its server runs this version of
// a package.
func started(h tool.Hash, version string, now time.Time) approval.Observation {
	d := seen(h, approval.OnChange, false, now)
	d.URL = "cmd:" + version
	d.Release = approval.Release{URL: d.URL, Family: "x", Version: "x@" + version}
	return d
}

// at1 returns a record that ada approved at version 1, as the store has it.
func at1() approval.Record {
	r := decidedRecord(approval.Approved, "h1", "h1")
	d := started("h1", "1", noon)
	r.URL, r.Release = d.URL, d.Release
	return r
}

func TestCarryable(t *testing.T) {
	hour := noon.Add(time.Hour)
	see := func(h tool.Hash, version string) func(*approval.Record) {
		return func(r *approval.Record) { *r, _, _ = approval.Observe(r, started(h, version, hour)) }
	}
	decided := func(next approval.Record, _ approval.Entry, err error) approval.Record {
		require.OK(t, err)
		return next.Next(hour)
	}
	later, ann := hour.Add(time.Minute), approval.Author{Actor: "ann", Subject: "1"}
	for name, test := range map[string]struct {
		steps []func(*approval.Record)
		want  string
	}{
		"the same definition": {[]func(*approval.Record){see("h1", "2")}, "x@1"},
		"another definition":  {[]func(*approval.Record){see("h2", "2")}, ""},
		"the same one later":  {[]func(*approval.Record){see("h2", "2"), see("h1", "2")}, "x@1"},
		"two versions later":  {[]func(*approval.Record){see("h2", "2"), see("h1", "3")}, "x@1"},
		"changed before":      {[]func(*approval.Record){see("h2", "1"), see("h2", "2")}, ""},
		"disabled": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			*r = decided(approval.Disable(*r, ann, later))
		}}, ""},
		"blocked and unblocked since": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			*r = decided(approval.Block(*r, "h1", ann, later))
			*r = decided(approval.Unblock(*r, "h1", ann, later))
		}}, ""},
		"approved and undone": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			*r = decided(approval.Approve(*r, "h1", ann, later))
			*r = decided(approval.UndoDecision(*r, r.Rev, "ann", later))
		}}, "x@1"},
		"approved by the first of two": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			*r = decided(approval.ApproveFourEyes(*r, "h1", ann, later))
		}}, "x@1"},
		"the store had lost the record": {[]func(*approval.Record){func(r *approval.Record) { r.Loss = &approval.Loss{At: noon} }, see("h1", "2")}, ""},
		"an older gateway accepted one approval of two": {[]func(*approval.Record){func(r *approval.Record) {
			r.Proposed = &approval.Proposal{Hash: "h1", By: "ada", Subject: "2", At: noon.Add(-time.Hour)}
			r.ApprovedBefore = []approval.Remembered{{Hash: "h1", By: "ada", At: noon}}
		}, see("h1", "2")}, ""},
		"a program without versions in between": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			*r, _, _ = approval.Observe(r, seen("h1", approval.OnChange, false, hour))
		}, see("h1", "2")}, ""},
		"an older gateway changed the URL, and somebody approved there": {[]func(*approval.Record){func(r *approval.Record) {
			r.URL = "https://mcp.example.com" // with the earlier release
		}, see("h1", "2")}, ""},
		"an older gateway changed the URL and kept the approval": {[]func(*approval.Record){see("h1", "2"), func(r *approval.Record) {
			r.URL = "https://mcp.example.com"
		}}, ""},
	} {
		r := at1()
		for _, step := range test.steps {
			step(&r)
		}
		if got, ok := r.Carryable(); got != test.want && ok || ok != (test.want != "") || ok && r.State != approval.Pending {
			t.Errorf("%s: %q, %v, %s", name, got, ok, r.State)
		}
	}
}

// A record of an earlier program gets the version at the next sync, without an audit line.
func TestObserveRelease(t *testing.T) {
	r := at1()
	r.Release = approval.Release{}
	next, e, changed := approval.Observe(&r, started("h1", "1", noon))
	if want := at1(); !changed || e != nil || next.State != approval.Approved {
		t.Errorf("changed %v, line %+v: %s", changed, e, cmp.Diff(want, next))
	}
	if _, _, changed := approval.Observe(&next, started("h1", "1", noon)); changed {
		t.Error("a second observation changes the record again")
	}
	next.Release.Version = string(make([]byte, approval.MaxName+1))
	if err := next.Check(); err == nil {
		t.Errorf("Check accepts a long version: %v", err)
	}
}
