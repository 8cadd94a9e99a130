package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDecideSession(t *testing.T) {
	d := newItemGateway(t)
	d.typed = true
	d.stdin = "n\n"
	d.do(1, "approve", "fs:read_file")
	d.stdin = "y\n"
	d.do(0, "approve", "fs:read_file", "--note", "kim read it")
	d.do(1, "approve", "fs:fetch_notes")
	d.stdin = "y\n"
	d.do(0, "approve", "fs:fetch_notes", "--note", "the sentence is quoted from a test")
	d.typed = false
	seen := d.hash("fs:read_file")
	d.do(1, "approve", "fs:write_file")
	d.do(0, "approve", "fs:write_file", "--hash", d.hash("fs:write_file")[:12], "-o", "json")
	d.do(0, "undo", "fs:write_file")
	d.do(1, "undo", "fs:write_file")
	d.change()
	d.do(1, "approve", "fs:read_file", "--hash", seen)
	d.do(1, "approve", "fs:read_file", "--hash", "f28e")
	d.do(1, "approve", "fs:read_file", "--hash", " ")
	d.do(1, "approve", "fs:read_file", "--hash", d.hash("fs:read_file"), "--rev", "2")
	d.do(0, "approve", "fs:read_file", "--hash", d.hash("fs:read_file"))
	d.do(0, "block", "fs:delete_file", "--note", "nobody needs it", "--tell")
	d.do(0, "unblock", "fs:delete_file")
	d.do(1, "unblock", "fs:delete_file")
	d.do(0, "disable", "fs:read_file", "--note", "the disk is full")
	d.do(0, "enable", "fs:read_file")
	d.do(1, "approve", "fs:format", "--hash", d.hash("fs:format"))
	d.do(0, "approve", "fs:prompt:summarize", "--hash", d.hash("fs:prompt:summarize"))
	d.do(0, "approve", "fs:resource:file:///notes.txt", "--hash", d.hash("fs:resource:file:///notes.txt"))
	d.do(1, "approve", "fs:reed_file")
	d.do(2, "approve", "read_file")
	d.do(2, "approve")
	d.do(2, "approve", "fs:read_file", "--yes")
	d.do(0, "audit", "--server", "fs", "--actor", "kim")
	d.refusals("approve", "fs:read_file")
	d.check("decide")
}

func TestBulkSession(t *testing.T) {
	d := newItemGateway(t)
	list := filepath.Join(d.dir, "seen.txt")
	write := func(text string) { t.Helper(); require.OK(t, os.WriteFile(list, []byte(text), 0o600)) }
	d.do(1, "approve", "--server", "fs", "--all")
	d.do(2, "approve", "--server", "fs")
	d.do(2, "approve", "--server", "fs", "--all", "--yes")
	d.typed, d.stdin = true, "no\n"
	d.do(1, "approve", "--server", "fs", "--all", "--max-tier", "write")
	d.stdin = "y\n"
	d.do(0, "approve", "--server", "fs", "--all", "--max-tier", "write")
	d.do(0, "approve", "--server", "fs", "--all", "--max-tier", "write")
	d.do(0, "approve", "--server", "tickets", "--all", "-q", "nothing like this")
	d.stdin = "y\n"
	d.do(0, "disable", "--server", "fs", "--all", "--tier", "write", "--note", "not today")
	d.stdin = "y\n"
	d.do(0, "enable", "--server", "fs", "--all")
	d.typed = false
	write(d.do(0, "tools", "--status", "pending_approval", "--hashes"))
	d.do(1, "approve", "--seen", list, "--yes")
	d.do(0, "approve", "--seen", list, "--yes", "--note", "read all of them")
	old := d.hash("fs:read_file")
	d.change()
	write("# what kim saw\nfs:read_file " + old + "\nfs:gone " + old + "\nfs:write_file " + d.hash("fs:write_file") + "\n")
	d.do(1, "approve", "--seen", list, "--yes")
	d.do(1, "block", "--seen", list, "--yes")
	d.stdin = d.do(0, "tools", "--server", "tickets", "-o", "json")
	d.do(0, "block", "--seen", "-", "--yes", "-o", "json")
	d.do(0, "block", "fs:read_file", "fs:list_files")
	for _, bad := range []string{"", "fs:read_file\n", "fs:read_file 3f2a\n", "read_file " + old, `{"tools": [`, `{"tools": [{"id": "x"}]}`} {
		write(bad)
		d.do(1, "approve", "--seen", list, "--yes")
	}
	d.do(1, "approve", "--seen", filepath.Join(d.dir, "none.txt"), "--yes")
	d.do(1, "approve", "fs:read_file", "fs:none")
	d.do(0, "audit", "--since", "1h", "--actor", "kim", "--tool", "fs:list_files")
	d.do(0, "audit", "--since", "1h", "--actor", "kim", "--tool", "fs:write_file")
	d.check("bulk")
}

func TestDecideWithoutRight(t *testing.T) {
	g := startGuarded(t, "search", map[string]string{"PORTCULLIS_VIEWERS": "engineering"})
	s := newTerminal(t, nil)
	s.env[client.TokenVariable] = g.issuer.Token(g.audience, map[string]any{"groups": []string{"engineering"}, "sub": "vic@example.com"})
	at := []string{"--url", g.URL}
	do := func(code int, args ...string) { t.Helper(); s.must(code, append(args, at...)...) }
	do(0, "tools")
	do(1, "disable", "files:read_file")
	do(1, "disable", "files:read_file", "files:delete_file")
	do(1, "stop", "files", "--reason", "it leaks")
	do(0, "stop")
	s.env[client.TokenVariable] = g.issuer.Token(g.audience, map[string]any{"groups": []string{"others"}, "sub": "nobody@example.com"})
	do(1, "tools")
	s.env[client.TokenVariable], _ = g.mint(`{"name": "ci", "servers": ["*"], "tiers": ["read"], "days": 1}`)
	do(1, "disable", "files:read_file")
	do(1, "requests")
	do(1, "requests", "decline", "R-7KQ2M4XD", "--reason", "no")
	do(1, "audit")
	do(1, "approvals", "write", "none/approvals.lock.json")
	s.env[client.TokenVariable] = g.issuer.Token(g.audience, map[string]any{"groups": []string{"gatekeepers"}, "sub": "kim@example.com"})
	do(0, "disable", "files:read_file", "--note", "for now")
	do(0, "audit", "--action", "disable")
	s.check("decide-no-right")
}

func TestSeenInTwoWords(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	got, err := parsePinned([]byte("# x\r\n\r\nfs:resource:file:///a b.txt  " + hash + "\r\n"))
	if err != nil || len(got) != 1 || got[0].ID != "fs:resource:file:///a b.txt" || string(got[0].Hash) != hash {
		t.Errorf("%+v, %v", got, err)
	}
}
