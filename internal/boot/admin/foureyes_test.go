package bootadmin_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var drop = tool.ID{Server: "db", Name: "drop"}

// Two people who sign in at an issuer together approve a destructive tool. Neither person can
// approve the tool alone. An access token of one person does not count as the second person, under
// any name.
func TestTwoPeopleAtTheIssuer(t *testing.T) {
	h, i := newIssued(t, "jwt")
	file := filepath.Join(h.folder, filepath.FromSlash(config.Key))
	require.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.OK(t, os.WriteFile(file, []byte(`{"mcpServers":{"db":{"url":"https://db.example.com/mcp"}},"review":{"four_eyes":"destructive"}}`), 0o600))
	const hash = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	r, _, _ := approval.Observe(nil, approval.Observation{ID: drop, Definition: []byte(`{"name":"drop"}`), Hash: hash, Mode: approval.Manual, Now: time.Now()})
	_, err := h.data.Put(t.Context(), r, nil)
	require.OK(t, err)
	here, there := h.start(), h.start() // two processes with one store

	state := func() approval.Record {
		t.Helper()
		r, err := h.data.Get(t.Context(), drop)
		require.OK(t, err)
		return r
	}
	approve := func(p *process, j *jar) (int, string) {
		t.Helper()
		a := j.send(p, "/admin/tools/db/drop/approve", url.Values{"csrf": {j.proof(p)}, "hash": {hash}, "rev": {strconv.FormatInt(state().Rev, 10)}, "note": {"seen"}})
		return a.Status, a.Body
	}
	kim, sam := newJar(t), newJar(t)
	kim.enter(here, i, nil)
	if status, body := approve(here, kim); status != http.StatusSeeOther || state().State != approval.Pending || state().Proposed == nil || state().Proposed.Subject == "" {
		t.Fatalf("kim: %d %s, %+v", status, body, state())
	}
	again := newJar(t) // another browser, in which the same subject has another name
	i.Become("8f3", map[string]any{"email": "kimberly@example.com", "email_verified": true, "groups": []string{"ops"}})
	again.enter(there, i, nil)
	if status, body := approve(there, again); status != http.StatusConflict || !strings.Contains(body, "You approved this definition already, as the first of two people") {
		t.Errorf("kim again: %d %s", status, body)
	}
	bearer := "Authorization: Bearer " + i.Token("https://gate.example.com/mcp", map[string]any{"sub": "9aa", "groups": []string{"ops"}, "scope": "portcullis:admin"})
	if a := there.Send("/admin/tools/db/drop/approve", `{"hash":"`+hash+`"}`, bearer); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "who are signed in with the issuer") {
		t.Errorf("a token: %d %s", a.Status, a.Body)
	}
	if r := state(); r.State != approval.Pending {
		t.Fatalf("it is %s", r.State)
	}
	i.Become("77c", map[string]any{"email": "sam@example.com", "email_verified": true, "groups": []string{"ops"}})
	sam.enter(there, i, nil)
	if page := sam.send(there, "/admin/tools/db/drop", nil).Body; !strings.Contains(page, "one more person is needed") || !strings.Contains(page, "Yours is the second approval") {
		t.Errorf("sam sees %s", page)
	}
	if status, body := approve(there, sam); status != http.StatusSeeOther || state().State != approval.Approved || !state().Endorsed.Two {
		t.Errorf("sam: %d %s, %+v", status, body, state())
	}
}
