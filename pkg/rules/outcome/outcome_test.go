package outcome

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// TestMessage pins every line that an agent may read about a server.
func TestMessage(t *testing.T) {
	var b bytes.Buffer
	for _, status := range []Status{Available, Transient, Permanent, Denied, ""} {
		fmt.Fprintf(&b, "# %q\n", status)
		seen := map[string]bool{}
		for _, reason := range Reasons() {
			m := Outcome{Status: status, Reason: reason, Error: "secret cause at https://x.example", RetryAfter: 7, HTTPStatus: 500}.Message("git-hub")
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
	golden.Check(t, filepath.Join("testdata", "messages.golden"), b.String())
}

// The text for operators is bounded, even if the server sends more.
func TestOperatorMessage(t *testing.T) {
	many := strings.Fields(strings.Repeat(strings.Repeat("x", 500)+" ", 50))
	o := Outcome{Status: Denied, Reason: ReasonSignInRequired, Challenge: &Challenge{Scopes: many, Issuers: many}}
	if got := o.OperatorMessage("s"); len(got) > 2000 || !strings.Contains(got, "requires an OAuth sign-in") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	o.Status, o.Reason = Transient, ReasonTimeout
	if got := o.OperatorMessage("s"); got != o.Message("s") {
		t.Errorf("%s", got)
	}
}

// Operators read for each denial what happened and who does what. The scopes are named.
func TestOperatorMessageOfDenials(t *testing.T) {
	for want, o := range map[string]Outcome{
		"The sign-in at MCP server 's' has ended. Press":                                                                                {Reason: ReasonCredentialExpired},
		"no longer accepts the gateway as a client. If the config has a client_id, correct it":                                          {Reason: ReasonClientRefused},
		"the server names another issuer now. Find out from its owner whether that is right":                                            {Reason: ReasonIssuerChanged},
		"requires more rights than the gateway's sign-in has: a, b. Press \"Sign in\"":                                                  {Reason: ReasonInsufficientScope, Connected: true, Challenge: &Challenge{Scopes: []string{"a", "b"}}},
		"requires more rights than the gateway's credential has: the server names no scope. Get a credential":                           {Reason: ReasonInsufficientScope},
		"requires scopes that the config does not allow: b. These calls fail until you add the scopes to auth.scopes and sign in again": {Reason: ReasonScopeNotAllowed, Challenge: &Challenge{Scopes: []string{"b"}}},
		"so the gateway offers no sign-in: a token could go to another server. Its owner has to":                                        {Reason: ReasonResourceMismatch},
		"refused the Authorization header that the config has in headers. Correct the header":                                           {Reason: ReasonAuthRequired, Challenge: &Challenge{Sent: true}},
		"Access to MCP server 's' was denied. Retrying will not help; contact its owner.":                                               {Reason: ReasonAuthRequired},
	} {
		o.Status = Denied
		if got := o.OperatorMessage("s"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", o.Reason, got)
		}
		if o.NeedsSignIn() != (o.SignInEnded() || o.Reason == ReasonSignInRequired) {
			t.Errorf("%s: NeedsSignIn = %t", o.Reason, o.NeedsSignIn())
		}
	}
}

func TestTTL(t *testing.T) {
	now := time.Now()
	for status, ttl := range map[Status]time.Duration{
		Available: 5 * time.Minute, Transient: 5 * time.Second, Permanent: time.Minute, Denied: 30 * time.Second, "": 0,
	} {
		if status.TTL() != ttl {
			t.Errorf("TTL of %q = %v, want %v", status, status.TTL(), ttl)
		}
		o := Outcome{Status: status, CheckedAt: now}
		if ttl > 0 && o.Stale(now.Add(ttl-1)) || !o.Stale(now.Add(ttl)) {
			t.Errorf("%q is not stale from %v on", status, ttl)
		}
	}
}

func TestCallErrorWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "No answer.", 200 * time.Millisecond: "No answer after 200 ms.", 7500 * time.Millisecond: "No answer after 8 s.", 20 * time.Second: "No answer after 20 s.",
	} {
		e := CallError{Outcome: Outcome{Status: Transient, Reason: ReasonTimeout, Duration: d}, Delivered: true}
		if got := e.Message("s"); got != want+" The call was sent and may have taken effect; check before calling again." {
			t.Errorf("after %v: %q", d, got)
		}
	}
}
