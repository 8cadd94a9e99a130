package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// startWithRequests runs a gateway where agents may request access. Its tools wait for approval,
// wipe is disabled, and each call of close_ticket needs a confirmation.
func startWithRequests(t *testing.T, env map[string]string) *program {
	t.Helper()
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"tickets": {upstreamtest.Tool("assign_ticket", "Assign a ticket.", ""), upstreamtest.Tool("close_ticket", "Close a ticket.", ""), upstreamtest.Tool("wipe", "Wipe the queue.", "")},
	}, upstreamtest.Options{})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, servers(all).config(each(`, "approval": "manual", "disabled_tools": ["wipe"]`), `, "gateway": {"requests": true}, "tools": {"confirm": ["tickets:close_ticket"]}`))
	return startWith(t, env, dir, "--actor", "kim")
}

// id returns the id of the newest open request.
func (s *terminal) id(flags ...string) string {
	s.t.Helper()
	var list admin.Requests
	before := s.text.String()
	if err := json.Unmarshal([]byte(s.must(0, append([]string{"requests", "-o", "json"}, flags...)...)), &list); err != nil || len(list.Requests) == 0 {
		s.t.Fatalf("%v: there is no open request", err)
	}
	s.text.Reset()
	s.text.WriteString(before)
	return list.Requests[0].ID
}

func TestRequestsSession(t *testing.T) {
	p := startWithRequests(t, nil)
	s := newTerminal(t, map[string]string{p.dir: "DIR"})
	at := []string{"--dir", p.dir}
	do := func(code int, args ...string) { t.Helper(); s.must(code, append(args, at...)...) }
	ask := func(tool, note string) string {
		p.Call("request_access", map[string]any{"names": []string{tool}, "note": note})
		return s.id(at...)
	}
	do(0, "requests")
	id := ask("tickets:assign_ticket", "kim knows printers")
	do(0, "requests")
	do(0, "requests", "show", id)
	hash := s.hashAt(p.dir, "tickets:assign_ticket")
	do(1, "requests", "allow", id, "--for", "8h", "--hash", hash)
	do(1, "requests", "approve", id, "--hash", "01")
	do(1, "requests", "approve", id, "--hash", strings.Repeat("0", 64))
	do(0, "requests", "approve", id, "--hash", hash, "--note", "kim asked")
	id = ask("tickets:wipe", "\x1b[2Jthe queue\u202e is full\nID  STATE")
	do(1, "requests", "approve", id)
	do(0, "requests", "decline", id, "--reason", "use assign_ticket")
	do(1, "requests", "allow", id, "--for", "1h")
	do(1, "requests", "show", "R-00000000")
	do(1, "requests", "show", "7")
	do(2, "requests", "allow", id)
	do(2, "requests", "allow", id, "--for", "31d")
	do(2, "requests", "forget", id)
	s.must(1, "requests", "--dir", filepath.Join(p.dir, "none"))
	s.must(1, "requests", "--url", "http://127.0.0.1:1")
	s.must(1, "requests", "--url", "gate.example.com")
	s.env[client.TokenVariable] = "pca_wrong"
	s.must(1, "requests", "--url", p.URL)
	s.check("requests")
}

func TestLasting(t *testing.T) {
	for s, want := range map[string]int{
		"90m": 90, "8h": 480, "7d": 10_080, "30d": request.MaxMinutes, "1m": 1,
		"": 0, "m": 0, "8": 0, "0h": 0, "-1h": 0, "31d": 0, "43201m": 0, "1.5h": 0, "8h" + " ": 0, "1w": 0, "99999999999999999999d": 0,
	} {
		got, err := parseLasting(s)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d minutes, %v, want %d", s, got, err, want)
		}
	}
}
