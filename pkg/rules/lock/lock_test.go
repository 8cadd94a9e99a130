package lock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// every returns all combinations of the four facts, each with its letters in the order of the
// facts: Y, N, or U for unknown.
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

// precedence has the expected status for all values of the four facts (server enabled, denied,
// disabled by the user, approved), as patterns. Each combination matches exactly one.
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

func TestClassify(t *testing.T) {
	all := every()
	if len(all) != 81 {
		t.Fatalf("%d combinations, want 3^4", len(all))
	}
	for letters, f := range all {
		var want []lock.Status
		for _, p := range precedence {
			if matches(p.pattern, letters) {
				want = append(want, p.want)
			}
		}
		if len(want) != 1 {
			t.Fatalf("%s matches %d patterns, want 1", letters, len(want))
		}
		got := lock.Classify(f)
		if got != want[0] || lock.Classify(f) != got {
			t.Errorf("Classify(%s) = %q, want %q each time", letters, got, want[0])
		}
		// If a rule denies the tool, or may deny it, the status is never one that the user could
		// remove.
		if f.Denied != lock.No && slices.Contains([]lock.Status{lock.DisabledByUser, lock.PendingApproval, lock.None}, got) {
			t.Errorf("Classify(%s) = %q", letters, got)
		}
		for _, less := range []lock.Facts{
			four(lock.Unknown, f.Denied, f.UserDisabled, f.Approved),
			four(f.ServerEnabled, lock.Unknown, f.UserDisabled, f.Approved),
			four(f.ServerEnabled, f.Denied, lock.Unknown, f.Approved),
			four(f.ServerEnabled, f.Denied, f.UserDisabled, lock.Unknown),
		} {
			if lock.Classify(less) == lock.None {
				t.Errorf("%s is callable without one of its facts: %v", letters, less)
			}
		}
	}
	if all["UUUU"] != (lock.Facts{}) {
		t.Error("the zero Facts are not all unknown")
	}
	// 3 and 255 are no facts. Classify treats them as unknown, so the tool is locked.
	for _, odd := range []lock.Fact{3, 255} {
		for _, f := range []lock.Facts{
			four(odd, lock.No, lock.No, lock.Yes), four(lock.Yes, odd, lock.No, lock.Yes), four(lock.Yes, lock.No, odd, lock.Yes), four(lock.Yes, lock.No, lock.No, odd),
		} {
			if got := lock.Classify(f); got != lock.DisabledUnknown {
				t.Errorf("Classify(%v) = %q, want unknown", f, got)
			}
		}
	}
}

// four returns facts without a grant.
func four(enabled, denied, disabled, approved lock.Fact) lock.Facts {
	return lock.Facts{ServerEnabled: enabled, Denied: denied, UserDisabled: disabled, Approved: approved}
}

// A grant replaces decisions of people, but does not override an operator's settings.
func TestGranted(t *testing.T) {
	for letters, f := range every() {
		without := lock.Classify(f)
		for _, granted := range []lock.Fact{lock.No, lock.Unknown, 3} {
			f.Granted = granted
			if got := lock.Classify(f); got != without {
				t.Errorf("Classify(%s, granted %v) = %q, want %q", letters, granted, got, without)
			}
		}
		f.Granted = lock.Yes
		want := without
		if f.ServerEnabled == lock.Yes && f.Denied == lock.No {
			want = lock.None
		}
		if got := lock.Classify(f); got != want {
			t.Errorf("Classify(%s, granted) = %q, want %q", letters, got, want)
		}
	}
}

func TestUserCanLift(t *testing.T) {
	for _, s := range append(lock.Statuses(), lock.None, "other") {
		if want := s == lock.DisabledByUser || s == lock.PendingApproval; s.UserCanLift() != want {
			t.Errorf("%q: %v", s, !want)
		}
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
		{lock.ServerDisabled, []string{"Enable the server first", "operator"}, []string{"approve", "re-enable"}, false},
		{
			lock.DisabledByConfig,
			[]string{"operator policy", "mcp_config.json or policy.cedar", "user cannot override"},
			[]string{"Ask the user", "approve", "re-enable", "Tool is disabled and not callable."},
			false,
		},
		{lock.DisabledByUser, []string{"Ask the user to re-enable it"}, []string{"approve"}, true},
		{lock.PendingApproval, []string{"Ask the user to approve it, or to have it reviewed"}, []string{"re-enable"}, true},
		{lock.DisabledUnknown, []string{"undetermined", "server logs"}, []string{"Ask the user", "approve"}, false},
		{"no such status", []string{"undetermined", "server logs"}, []string{"Ask the user"}, false},
	} {
		t.Run(string(tc.status), func(t *testing.T) {
			with, without := lock.RemediationOf("tool", tc.status, link), lock.RemediationOf("tool", tc.status, "")
			checkText(t, tc.status, with, tc.has, tc.hasNot)
			checkText(t, tc.status, without, tc.has, tc.hasNot)
			if got := strings.HasSuffix(with, ": "+link); got != tc.linkUsed {
				t.Errorf("%q ends with the link: %v, want %v", with, got, tc.linkUsed)
			}
			if !tc.linkUsed && with != without {
				t.Errorf("the link changes a text that does not contain it: %q, %q", with, without)
			}
		})
	}
	if got := lock.RemediationOf("tool", lock.None, link); got != "" {
		t.Errorf("Remediation(None) = %q, want none", got)
	}
	seen := map[string]lock.Status{}
	for _, s := range lock.Statuses() {
		text := lock.RemediationOf("tool", s, "")
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s share a text", s, other)
		}
		seen[text] = s
	}
}

// The texts for prompts and resources say the same as for tools, in their own words.
func TestRemediationOf(t *testing.T) {
	for _, s := range append(lock.Statuses(), lock.None, "other") {
		for kind, common := range map[string]string{
			"tool":     "Tool is disabled and not callable. ",
			"prompt":   "Prompt is disabled and cannot be used. ",
			"resource": "Resource is disabled and cannot be read. ",
		} {
			want := strings.NewReplacer("Tool is disabled and not callable. ", common, "This tool", "This "+kind).Replace(lock.RemediationOf("tool", s, "https://x.example/p"))
			if got := lock.RemediationOf(kind, s, "https://x.example/p"); got != want {
				t.Errorf("%s %s: %q, want %q", kind, s, got, want)
			}
		}
	}
}

func checkText(t *testing.T, status lock.Status, text string, has, hasNot []string) {
	t.Helper()
	says := func(s string) bool { return strings.Contains(text, s) }
	if i := slices.IndexFunc(has, func(s string) bool { return !says(s) }); i >= 0 {
		t.Errorf("%q does not say %q", text, has[i])
	}
	if i := slices.IndexFunc(hasNot, says); i >= 0 {
		t.Errorf("%q says %q", text, hasNot[i])
	}
	if status != lock.DisabledByConfig && !strings.HasPrefix(text, "Tool is disabled and not callable. ") {
		t.Errorf("%q does not start with the sentence of all texts except a denial", text)
	}
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("%q is more than one line", text)
	}
}
