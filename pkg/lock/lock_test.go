package lock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
)

// every returns all combinations of the four facts, and the letters of each, in
// the order of the questions: Y, N, or U for unknown.
func every() map[string]lock.Facts {
	facts := map[byte]lock.Fact{'Y': lock.Yes, 'N': lock.No, 'U': lock.Unknown}
	all := map[string]lock.Facts{}
	for a, enabled := range facts {
		for b, denied := range facts {
			for c, disabled := range facts {
				for d, approved := range facts {
					all[string([]byte{a, b, c, d})] = lock.Facts{
						ServerEnabled: enabled, Denied: denied, UserDisabled: disabled, Approved: approved,
					}
				}
			}
		}
	}
	return all
}

// precedence is the whole truth about the four facts (server enabled, denied,
// disabled by the user, approved), as patterns of which each combination matches one.
var precedence = []struct {
	pattern string
	want    lock.Status
}{
	{"N???", lock.ServerDisabled},
	{"U???", lock.DisabledUnknown},
	{"YY??", lock.DisabledByConfig},
	{"YU??", lock.DisabledUnknown},
	{"YNY?", lock.DisabledByUser},
	{"YNU?", lock.DisabledUnknown},
	{"YNNN", lock.PendingApproval},
	{"YNNU", lock.DisabledUnknown},
	{"YNNY", lock.None},
}

func matches(pattern, letters string) bool {
	for i := range pattern {
		if pattern[i] != '?' && pattern[i] != letters[i] {
			return false
		}
	}
	return true
}

func TestClassifyFollowsThePrecedence(t *testing.T) {
	all := every()
	if len(all) != 81 {
		t.Fatalf("%d combinations, want 3^4", len(all))
	}
	for letters, facts := range all {
		var want []lock.Status
		for _, p := range precedence {
			if matches(p.pattern, letters) {
				want = append(want, p.want)
			}
		}
		if len(want) != 1 {
			t.Fatalf("%s matches %d patterns, want 1", letters, len(want))
		}
		if got := lock.Classify(facts); got != want[0] {
			t.Errorf("Classify(%s) = %q, want %q", letters, got, want[0])
		}
	}
}

func TestZeroFactsAreLocked(t *testing.T) {
	if got := lock.Classify(lock.Facts{}); got != lock.DisabledUnknown {
		t.Errorf("Classify(zero) = %q, want %q", got, lock.DisabledUnknown)
	}
}

func TestClassifyIsTotalAndDeterministic(t *testing.T) {
	known := map[lock.Status]bool{lock.None: true}
	for _, s := range lock.Statuses() {
		known[s] = true
	}
	// 3 and 255 are no facts; a caller that makes them up finds the tool locked.
	values := []lock.Fact{lock.Unknown, lock.No, lock.Yes, 3, 255}
	for _, a := range values {
		for _, b := range values {
			for _, c := range values {
				for _, d := range values {
					f := lock.Facts{ServerEnabled: a, Denied: b, UserDisabled: c, Approved: d}
					got := lock.Classify(f)
					if !known[got] {
						t.Errorf("Classify(%v) = %q, which is no status", f, got)
					}
					if again := lock.Classify(f); again != got {
						t.Errorf("Classify(%v) = %q, then %q", f, got, again)
					}
					callable := f == lock.Facts{ServerEnabled: lock.Yes, Denied: lock.No, UserDisabled: lock.No, Approved: lock.Yes}
					if (got == lock.None) != callable {
						t.Errorf("Classify(%v) = %q, callable = %v", f, got, callable)
					}
				}
			}
		}
	}
}

// What the operator denies, or may deny, is never explained by a reason that
// the user could remove.
func TestDenialIsNeverTheUsersToLift(t *testing.T) {
	for letters, f := range every() {
		if f.Denied == lock.No {
			continue
		}
		switch got := lock.Classify(f); got {
		case lock.DisabledByUser, lock.PendingApproval, lock.None:
			t.Errorf("Classify(%s) = %q", letters, got)
		}
	}
}

func TestForgettingAFactNeverUnlocks(t *testing.T) {
	for letters, f := range every() {
		if lock.Classify(f) == lock.None {
			continue
		}
		for _, g := range []lock.Facts{
			{lock.Unknown, f.Denied, f.UserDisabled, f.Approved},
			{f.ServerEnabled, lock.Unknown, f.UserDisabled, f.Approved},
			{f.ServerEnabled, f.Denied, lock.Unknown, f.Approved},
			{f.ServerEnabled, f.Denied, f.UserDisabled, lock.Unknown},
		} {
			if lock.Classify(g) == lock.None {
				t.Errorf("%s is locked, and callable with a fact less: %v", letters, g)
			}
		}
	}
}

func TestFactOf(t *testing.T) {
	if got := lock.FactOf(true); got != lock.Yes {
		t.Errorf("FactOf(true) = %v, want Yes", got)
	}
	if got := lock.FactOf(false); got != lock.No {
		t.Errorf("FactOf(false) = %v, want No", got)
	}
}

func TestStatusesAreInPrecedenceOrder(t *testing.T) {
	want := []lock.Status{"server_disabled", "disabled_by_config", "disabled_by_user", "pending_approval", "disabled_unknown"}
	if got := fmt.Sprint(lock.Statuses()); got != fmt.Sprint(want) {
		t.Errorf("Statuses() = %v, want %v", got, want)
	}
}

func TestRemediation(t *testing.T) {
	const link = "https://gate.example.com/admin/tools/github/delete_repo"
	for _, tc := range []struct {
		status   lock.Status
		has      []string
		hasNot   []string
		linkUsed bool
	}{
		{lock.ServerDisabled, []string{"server to be enabled first"}, []string{"approve", "re-enable"}, false},
		{
			lock.DisabledByConfig,
			[]string{"operator policy", "mcp_config.json or policy.cedar", "user cannot override"},
			[]string{"ask the user", "approve", "re-enable", "Portcullis page", "Tool is disabled and not callable."},
			false,
		},
		{lock.DisabledByUser, []string{"ask the user to re-enable", "Portcullis page"}, []string{"approve"}, true},
		{lock.PendingApproval, []string{"ask the user to review and approve", "Portcullis page"}, []string{"re-enable"}, true},
		{lock.DisabledUnknown, []string{"undetermined", "check the server logs"}, []string{"ask the user", "approve"}, false},
		{"no such status", []string{"undetermined", "check the server logs"}, []string{"ask the user"}, false},
	} {
		t.Run(string(tc.status), func(t *testing.T) {
			with, without := lock.Remediation(tc.status, link), lock.Remediation(tc.status, "")
			for _, text := range []string{with, without} {
				for _, s := range tc.has {
					if !strings.Contains(text, s) {
						t.Errorf("%q does not say %q", text, s)
					}
				}
				for _, s := range tc.hasNot {
					if strings.Contains(text, s) {
						t.Errorf("%q says %q", text, s)
					}
				}
				if tc.status != lock.DisabledByConfig && !strings.HasPrefix(text, "Tool is disabled and not callable. ") {
					t.Errorf("%q does not begin with what is common to all but a denial", text)
				}
				if strings.ContainsAny(text, "\n\r") {
					t.Errorf("%q is more than one line", text)
				}
			}
			if got := strings.HasSuffix(with, ": "+link); got != tc.linkUsed {
				t.Errorf("%q ends with the link: %v, want %v", with, got, tc.linkUsed)
			}
			if !tc.linkUsed && with != without {
				t.Errorf("the link changes a text that has no use for it: %q, %q", with, without)
			}
		})
	}
	if got := lock.Remediation(lock.None, link); got != "" {
		t.Errorf("Remediation(None) = %q, want none", got)
	}
}

func TestRemediationTextsDiffer(t *testing.T) {
	seen := map[string]lock.Status{}
	for _, s := range lock.Statuses() {
		text := lock.Remediation(s, "")
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s share a text", s, other)
		}
		seen[text] = s
	}
}
