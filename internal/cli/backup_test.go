package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// newShelf returns a folder with a gateway that has one approved tool and one waiting tool.
func newShelf(t *testing.T) (dir string, s *terminal) {
	t.Helper()
	server := upstreamtest.New(t, upstreamtest.Options{Tools: rawTools("read_page", "send_mail")})
	dir = t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {"web": {"url": "`+server.URL+`", "approval": "manual"}}}`)
	s = newTerminal(t, map[string]string{dir: "gate"})
	s.must(0, "sync", "--dir", dir)
	s.text.Reset()
	return dir, s
}

// Copies that are made in the same second get a number. The oldest of them is removed first.
func TestBackupsOfOneSecond(t *testing.T) {
	dir, s := newShelf(t)
	for range 3 {
		s.must(0, "backup", "--dir", dir)
	}
	root := t.TempDir()
	from, first := filepath.Join(root, "from"), filepath.Join(root, "approvals-20260101T000000Z")
	require.OK(t, os.WriteFile(from, nil, 0o600))
	for range 11 {
		_, err := freeName(first, ".db", func(name string) error { return os.Link(from, name) })
		require.OK(t, err)
	}
	_, err := thin(root, 2)
	require.OK(t, err)
	want := []string{"approvals-20260101T000000Z-10.db", "approvals-20260101T000000Z-11.db", "from"}
	if got := copies(t, root); !slices.Equal(got, want) {
		t.Errorf("the two newest are %q, want %q", got, want)
	}
}

// copies returns the names of the copies in a folder.
func copies(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.OK(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBackupSession(t *testing.T) {
	dir, s := newShelf(t)
	empty := t.TempDir()
	s.names[empty] = "empty"
	first := filepath.Join(dir, "first.db")
	s.must(0, "backup", first, "--dir", dir, "--actor", "kim")
	if info, err := os.Stat(first); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	decideAbout(t, dir, "web", "read_page", "approve")
	decideAbout(t, dir, "web", "send_mail", "disable")

	p := start(t, dir, "--actor", "sam")
	old := filepath.Join(dir, folder.BackupFolder)
	require.OK(t, os.Mkdir(old, 0o700))
	for _, name := range []string{"approvals-20200101T000000Z.db", "approvals-20210101T000000Z.db", "approvals-20220101T000000Z.db.mine", "approvals-2022.db"} {
		require.OK(t, os.WriteFile(filepath.Join(old, name), nil, 0o600))
	}
	s.must(0, "backup", "--keep", "2", "--dir", dir)
	if got := copies(t, old); len(got) != 4 || !slices.Contains(got, "approvals-20210101T000000Z.db") || !slices.Contains(got, "approvals-20220101T000000Z.db.mine") {
		t.Errorf("after --keep 2 there are %q", got)
	}
	s.must(1, "restore", first, "--dir", dir)
	require.OK(t, p.stop())
	s.must(0, "audit", "--action", "approvals_backup", "--dir", dir)

	s.must(0, "restore", first, "--dir", dir)
	s.must(0, "restore", "--dir", dir)
	s.must(0, "restore", first, "--dir", dir)
	s.must(0, "approvals", "accept", "--dir", dir)

	s.must(1, "backup", first, "--dir", dir)
	s.must(1, "backup", "--dir", empty)
	s.must(1, "backup", filepath.Join(empty, "no", "folder.db"), "--dir", dir)
	s.must(2, "backup", "--keep", "3", first, "--dir", dir)
	s.must(2, "backup", "--keep", "-1", "--dir", dir)
	s.must(1, "restore", filepath.Join(dir, "approvals.db"), "--dir", dir)
	s.must(1, "restore", filepath.Join(dir, "none.db"), "--dir", dir)
	s.must(1, "restore", filepath.Join(dir, "config", "mcp_config.json"), "--dir", dir)
	s.must(1, "restore", first, "--url", "https://gate.example.com")
	s.must(1, "restore", "--keep-tokens", "--dir", dir)
	s.check("backup")
	for _, name := range copies(t, dir) {
		if strings.Contains(name, ".tmp-") || strings.Contains(name, ".copy-") {
			t.Errorf("%s was left", name)
		}
	}
}

// A tool that was locked after the copy stays locked after a restore. This applies in every state
// of the old file.
func TestRestoredCopyOpensNothing(t *testing.T) {
	open := func(dir string) (names []string) {
		p := start(t, dir)
		defer func() { require.OK(t, p.stop()) }()
		for _, name := range []string{"read_page", "send_mail"} {
			if got := p.Call("call_tool_destructive", map[string]any{"name": "web:" + name}); !strings.Contains(got.Text, "locked") {
				names = append(names, name)
			}
		}
		return names
	}
	for name, spoil := range map[string]func(dir string) error{
		"as it was": func(string) error { return nil },
		"damaged":   func(dir string) error { return os.Truncate(filepath.Join(dir, folder.ApprovalsFile), 5000) },
		"lost":      func(dir string) error { return os.Remove(filepath.Join(dir, folder.ApprovalsFile)) },
		"lost, with the catalog": func(dir string) error {
			require.OK(t, os.RemoveAll(filepath.Join(dir, "catalog")))
			return os.Remove(filepath.Join(dir, folder.ApprovalsFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := newShelf(t)
			decideAbout(t, dir, "web", "send_mail", "approve") // callable in the copy
			first := filepath.Join(dir, "first.db")
			s.must(0, "backup", first, "--dir", dir)
			decideAbout(t, dir, "web", "send_mail", "disable")
			decideAbout(t, dir, "web", "read_page", "approve")
			s.must(0, "sync", "--dir", dir) // a running gateway syncs every minute
			require.OK(t, spoil(dir))
			s.must(0, "restore", first, "--dir", dir)
			if got := open(dir); slices.Contains(got, "send_mail") {
				t.Errorf("a tool that was disabled after the copy is callable: %q\n%s",
					got, s.text.String())
			}
			s.must(0, "approvals", "accept", "--dir", dir)
			if got := open(dir); !slices.Equal(got, []string{"send_mail"}) {
				t.Errorf("after accept %q are callable, want the tools that the copy approves\n%s", got, s.text.String())
			}
		})
	}
}

// If a backup cannot be restored, nothing is changed.
func TestRestoreRefuses(t *testing.T) {
	dir, s := newShelf(t)
	first := filepath.Join(dir, "first.db")
	s.must(0, "backup", first, "--dir", dir)
	whole, err := os.ReadFile(first)
	require.OK(t, err)
	before, err := os.ReadFile(filepath.Join(dir, folder.ApprovalsFile))
	require.OK(t, err)
	for name, data := range map[string][]byte{
		"cut": whole[:len(whole)/2], "empty": nil, "junk": []byte(strings.Repeat("junk", 5000)), "damaged": damaged(whole),
	} {
		bad := filepath.Join(dir, name+".db")
		require.OK(t, os.WriteFile(bad, data, 0o600))
		s.must(1, "restore", bad, "--dir", dir)
	}
	if n := strings.Count(s.text.String(), "nothing was changed"); n != 4 {
		t.Errorf("%d refusals say that nothing was changed, want 4:\n%s", n, s.text.String())
	}
	after, err := os.ReadFile(filepath.Join(dir, folder.ApprovalsFile))
	require.OK(t, err)
	if !slices.Equal(before, after) {
		t.Error("a refused restore wrote the store")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.bak-*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if _, err := bolt.Inspect(first); err != nil {
		t.Error(err)
	}
}

// The message does not claim that nothing changed if the result could not be printed.
func TestRestoreSaysTruthOnFullDisk(t *testing.T) {
	dir, s := newShelf(t)
	first := filepath.Join(dir, "first.db")
	s.must(0, "backup", first, "--dir", dir)
	env := quiet()
	env.stdout = fullDisk{}
	err := run(t.Context(), []string{"restore", first, "--dir", dir}, env)
	if err == nil || !strings.Contains(err.Error(), "the copy is restored") || strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("restore = %v", err)
	}
}

// damaged returns a file in which one record is not JSON.
func damaged(whole []byte) []byte {
	return []byte(strings.ReplaceAll(string(whole), `"server":"web"`, `"server";"web"`))
}

// rawTools returns tools with these names.
func rawTools(names ...string) (tools []json.RawMessage) {
	for _, name := range names {
		tools = append(tools, upstreamtest.Tool(name, "To "+name+".", ""))
	}
	return tools
}

// decideAbout decides about a tool in its current state.
func decideAbout(t *testing.T, dir, server, name, verb string) {
	t.Helper()
	g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	defer g.close()
	id := tool.ID{Server: server, Name: name}
	now, err := g.Item(t.Context(), id, "")
	require.OK(t, err)
	_, err = client.Decide.Do(
		t.Context(), g.Client, nil, client.Decision{Hash: now.Value.Hash}, client.ItemPath(id), verb)
	require.OK(t, err)
}

// If the answer is truncated, no file remains.
func TestTruncatedBackup(t *testing.T) {
	dir := t.TempDir()
	short := &http.Response{
		Header: http.Header{"Content-Length": {"10"}}, Body: io.NopCloser(strings.NewReader("short")),
	}
	err := store.WriteFile(filepath.Join(dir, "copy.db"), 0o600, store.Create,
		func(f *os.File) error { return receive(f, short) })
	if left := copies(t, dir); err == nil || len(left) > 0 {
		t.Errorf("a truncated backup: %v; left %q", err, left)
	}
}
