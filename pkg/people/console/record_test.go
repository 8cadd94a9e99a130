package console_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// recorded returns the audit events that are about no item, one line for each event.
func (h *fixture) recorded() (out []string) {
	for _, l := range h.Deeds.Lines() {
		out = append(out, strings.Join([]string{l.Actor, l.Action, l.Subject, l.Note, l.Source}, "|"))
	}
	return out
}

func TestDeedsOfSessions(t *testing.T) {
	h := newLaptop(t)
	office, here := h.enter(), h.enter()
	page := h.Send("/admin/me", "", browser, here).Body
	h.Submit("/admin/me/revoke-others", url.Values{"csrf": {h.Field(page, "csrf")}}, here)
	h.Submit("/admin/logout", url.Values{"csrf": {h.Field(page, "csrf")}}, here)
	h.signIn(url.Values{"key": {"x"}}) // a refused sign-in is no event
	h.Submit("/admin/logout", url.Values{}, office)
	want := []string{"kim|login||by key|192.0.2.1", "kim|login||by key|192.0.2.1", "kim|session_revoked||1 session of one's own|192.0.2.1", "kim|logout|||192.0.2.1"}
	if d := cmp.Diff(want, h.recorded()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDeedsOfTokens(t *testing.T) {
	h := withTokens(t)
	form := url.Values{"name": {"ci"}, "servers": {"fs, mail"}, "tier": {"read"}, "days": {"30"}}
	made := h.Submit("/admin/tokens", form)
	tok := h.sole()
	h.Submit("/admin/tokens/"+tok.ID+"/revoke", url.Values{"csrf": {""}})
	h.Submit("/admin/tokens/"+tok.ID+"/revoke", url.Values{"csrf": {""}}) // no effect, no event
	want := []string{
		"ann|token_made|token:ci|id " + tok.ID + "; servers fs, mail; tiers read; until " + tok.ExpiresAt.Format("2006-01-02") + "|192.0.2.1",
		"ann|token_revoked|token:ci|id " + tok.ID + "|192.0.2.1",
	}
	if d := cmp.Diff(want, h.recorded()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if text := regexp.MustCompile(`pct_[A-Za-z0-9_-]+`).FindString(made.Body); text == "" || strings.Contains(strings.Join(h.recorded(), ""), text) {
		t.Errorf("the text of the token, %q, is in the audit", text)
	}
}

// If the audit cannot record a new token, the token is not valid.
func TestTokenThatCannotBeRecorded(t *testing.T) {
	h := withTokens(t)
	h.Deeds.OnPut = func(audit.Line) error { return errors.New("no room") }
	w := h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "servers": {"fs"}, "tier": {"read"}, "days": {"30"}})
	if w.Status != http.StatusServiceUnavailable || !strings.Contains(w.Body, "so no token was made") || strings.Contains(w.Body, "pct_") {
		t.Errorf("%d %s", w.Status, w.Body)
	}
	if s := h.Console.Tokens.StatusAt(t.Context()).Status(h.sole()); s != token.Revoked {
		t.Errorf("the token is %s", s)
	}
	if got := h.Log.String(); !strings.Contains(got, "a deed is not in the audit") {
		t.Errorf("log: %s", got)
	}
}
