package upstream

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

var _ = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestMessagesAreGolden pins every line that an agent may read about a server.
func TestMessagesAreGolden(t *testing.T) {
	var b bytes.Buffer
	for _, status := range []Status{Available, Transient, Permanent, Denied, ""} {
		fmt.Fprintf(&b, "# %q\n", status)
		seen := map[string]bool{}
		for _, reason := range Reasons() {
			m := Message("git-hub", Outcome{Status: status, Reason: reason, Error: "secret cause at https://x.example", RetryAfter: 7, HTTPStatus: 500})
			if status == Permanent && reason != ReasonUnknown && inWords(reason) == inWords(ReasonUnknown) {
				continue // no permanent failure has that reason
			}
			if status == Permanent {
				fmt.Fprintf(&b, "%s: %s\n", reason, m)
			} else if !seen[m] {
				fmt.Fprintf(&b, "%s\n", m)
			}
			seen[m] = true
			if strings.Contains(m, "secret") || strings.Contains(m, "https") {
				t.Errorf("message %q repeats the cause", m)
			}
		}
	}
	path := filepath.Join("testdata", "messages.golden")
	if updating() {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("messages (-golden +now):\n%s", diff)
	}
}

func TestMessagesKeepTheirPromises(t *testing.T) {
	for _, reason := range Reasons() {
		transient := Message("s", Outcome{Status: Transient, Reason: reason})
		denied := Message("s", Outcome{Status: Denied, Reason: reason})
		if strings.Contains(transient, "will not work") || !strings.Contains(transient, "will be retried") {
			t.Errorf("transient says %q", transient)
		}
		if strings.Contains(denied, "starting up") || strings.Contains(denied, "will be retried") {
			t.Errorf("denied says %q", denied)
		}
	}
}

func TestEveryGroundHasAReasonOfTheSet(t *testing.T) {
	all := Reasons()
	for _, g := range grounds() {
		if !slices.Contains(all, g.reason) {
			t.Errorf("row %s has reason %q, which Reasons does not list", g.row, g.reason)
		}
		if g.status == Permanent && inWords(g.reason) == inWords(ReasonUnknown) {
			t.Errorf("row %s has reason %q, which has no words", g.row, g.reason)
		}
	}
}
