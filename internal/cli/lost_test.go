package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A shop is the folder of a gateway with one server, with a tool in each state. Between yesterday
// and today people decided:
//
//	steady   approved on both days
//	allowed  waited yesterday, is approved today
//	freed    was disabled yesterday, is enabled today
//	shut     was enabled yesterday, is disabled today
//	changed  was approved yesterday, its definition changed today
//	waiting  waits on both days
type shop struct {
	t         *testing.T
	dir       string
	yesterday []byte // approvals.db
	today     []byte
}

func definitions(changed string, names ...string) (tools []json.RawMessage) {
	for _, name := range names {
		description := "Does it."
		if name == "changed" {
			description = changed
		}
		tools = append(tools, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)))
	}
	return tools
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, dir: t.TempDir()}
	up := upstreamtest.New(t, upstreamtest.Options{Tools: definitions("Once.", "steady", "freed", "shut", "changed")})
	programtest.WriteConfig(t, s.dir, fmt.Sprintf(`{"mcpServers": {"shop": {"url": %q}}}`, up.URL))
	s.open(s.dir, func(p *boot.Program, _ string) {
		s.sync(p)
		s.decide(p, "freed", approval.Disable)
		up.SetTools(definitions("Once.", "steady", "freed", "shut", "changed", "allowed", "waiting"))
		s.sync(p)
	})
	s.yesterday = s.file(s.dir)
	s.open(s.dir, func(p *boot.Program, _ string) {
		s.decide(p, "freed", approval.Enable)
		s.decide(p, "shut", approval.Disable)
		r, err := p.Stores.Approvals.Get(t.Context(), tool.ID{Server: "shop", Name: "allowed"})
		require.OK(t, err)
		s.decide(p, "allowed", func(r2 approval.Record, said approval.Author, now time.Time) (approval.Record, approval.Entry, error) {
			return approval.Approve(r2, r.CurrentHash, said, now)
		})
		up.SetTools(definitions("Now other.", "steady", "freed", "shut", "changed", "allowed", "waiting"))
		s.sync(p)
	})
	s.today = s.file(s.dir)
	return s
}

func (s *shop) file(root string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(root, folder.ApprovalsFile))
	require.OK(s.t, err)
	return data
}

func (s *shop) sync(p *boot.Program) {
	s.t.Helper()
	if _, err := p.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) decide(p *boot.Program, name string, how func(approval.Record, approval.Author, time.Time) (approval.Record, approval.Entry, error)) {
	s.t.Helper()
	r, err := p.Stores.Approvals.Get(s.t.Context(), tool.ID{Server: "shop", Name: name})
	if err == nil {
		var e approval.Entry
		if r, e, err = how(r, approval.Author{Actor: "ann"}, time.Now()); err == nil {
			_, err = p.Stores.Approvals.Put(s.t.Context(), r, &e)
		}
	}
	require.OK(s.t, err)
}

// open starts the local program on a folder, without its loop of syncs, and reports whether it
// starts.
func (s *shop) open(root string, do func(p *boot.Program, url string)) bool {
	s.t.Helper()
	store, err := bolt.Open(filepath.Join(root, folder.ApprovalsFile), nil)
	if errors.Is(err, bolt.ErrDamaged) {
		return false
	}
	require.OK(s.t, err)
	defer store.Close()
	settings, err := folder.Settings(noEnv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	require.OK(s.t, err)
	p := boot.New(settings, boot.Stores{Objects: dir.New(root), Approvals: store, Tokens: token.NewStore(store)}, boot.Options{Log: slog.New(slog.DiscardHandler)})
	handler, err := p.Public()
	require.OK(s.t, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	do(p, server.URL)
	return true
}

// callable calls every tool, and searches for each: a tool that a search shows as callable must be
// callable.
func (s *shop) callable(url string) []string {
	s.t.Helper()
	ask := &agenttest.Client{T: s.t, URL: url}
	var found struct{ Tools []struct{ Name string } }
	ask.CallJSON("retrieve_tools", `{"query": "does it once now other steady freed shut changed allowed waiting", "limit": 50}`, &found)
	var open []string
	for _, name := range []string{"allowed", "changed", "freed", "shut", "steady", "waiting"} {
		if !ask.Call("call_tool_destructive", map[string]any{"name": "shop:" + name}).IsError {
			open = append(open, name)
		}
	}
	for _, x := range found.Tools {
		if !slices.Contains(open, strings.TrimPrefix(x.Name, "shop:")) {
			s.t.Errorf("a search shows %s as callable, but its call fails", x.Name)
		}
	}
	return open
}

// after damages a copy of today's folder with spoil, and runs the program with args if there are
// any. It returns the callable tools, as a list and in words.
func (s *shop) after(spoil func(s *shop, path string), synced bool, args ...string) (cell string, open []string) {
	s.t.Helper()
	root := filepath.Join(s.t.TempDir(), "gateway")
	require.OK(s.t, os.CopyFS(root, os.DirFS(s.dir)))
	spoil(s, filepath.Join(root, folder.ApprovalsFile))
	if len(args) > 0 {
		if err := run(context.Background(), append(args, "--dir", root, "--actor", "ann"), &environment{getenv: os.Getenv, stdout: io.Discard, stderr: io.Discard}); err != nil {
			return "refused", nil
		}
	}
	started := s.open(root, func(p *boot.Program, url string) {
		if synced {
			s.sync(p)
		}
		open = s.callable(url)
	})
	switch {
	case !started:
		return "does not start", nil
	case len(open) == 0:
		return "none", nil
	}
	return strings.Join(open, ", "), open
}

// losses are the ways to lose an approval store.
var losses = []struct {
	name  string
	spoil func(s *shop, path string)
}{
	{"nothing", func(*shop, string) {}},
	{"deleted", func(s *shop, path string) { s.check(os.Remove(path)) }},
	{"emptied: no record left", func(s *shop, path string) {
		s.check(os.Remove(path))
		store, err := bolt.Open(path, nil)
		s.check(err)
		s.check(store.Close())
	}},
	{"emptied: no byte left", func(s *shop, path string) { s.check(os.Truncate(path, 0)) }},
	{"cut in half", func(s *shop, path string) { s.check(os.Truncate(path, int64(len(s.today)/2))) }},
	{"random bytes", func(s *shop, path string) {
		junk := bytes.Clone(s.today)
		for i := range junk {
			junk[i] = byte(rand.Uint32())
		}
		s.check(os.WriteFile(path, junk, 0o600))
	}},
	{"restored to yesterday", func(s *shop, path string) { s.check(os.WriteFile(path, s.yesterday, 0o600)) }},
}

func (s *shop) check(err error) {
	s.t.Helper()
	require.OK(s.t, err)
}

// The test checks which tools are callable after each kind of loss of the approval store, at every
// step. The table is in docs/design/stores.md.
func TestLostApprovals(t *testing.T) {
	s := newShop(t)
	today := []string{"allowed", "freed", "steady"}
	var table strings.Builder
	table.WriteString("| what happened to `approvals.db` | before a sync | after it | after `restore` | after `approvals accept` |\n|---|---|---|---|---|\n")
	for _, loss := range losses {
		before, open1 := s.after(loss.spoil, false)
		synced, open2 := s.after(loss.spoil, true)
		restored, open3 := s.after(loss.spoil, true, "restore")
		accepted, open4 := s.after(loss.spoil, true, "approvals", "accept")
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", loss.name, before, synced, restored, accepted)
		for step, open := range map[string][]string{"before a sync": open1, "after a sync": open2, "after restore": open3, "after accept": open4} {
			for _, name := range open {
				// accept keeps the old version, in which shut is callable
				accepts := step == "after accept" && loss.name == "restored to yesterday" && name == "shut"
				if !slices.Contains(today, name) && !accepts {
					t.Errorf("%s, %s: %s is callable, but it was locked today",
						loss.name, step, name)
				}
			}
		}
		if !slices.Equal(open3, today) {
			t.Errorf("%s: after restore %v are callable, want %v", loss.name, open3, today)
		}
	}
	page, err := os.ReadFile("../../docs/design/stores.md")
	require.OK(t, err)
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/design/stores.md does not have this table:\n%s", table.String())
	}
}

// The commands print what they did, and keep the damaged file.
func TestApprovalsCommand(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(s.dir, folder.ApprovalsFile)
	command := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), append(args, "--dir", s.dir, "--actor", "ann"), &environment{getenv: os.Getenv, stdout: &out, stderr: io.Discard})
		return out.String(), err
	}
	s.check(os.WriteFile(path, []byte("damaged"), 0o600))
	if _, err := command("serve", "--addr", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "portcullis restore --dir") {
		t.Errorf("start with a damaged file: %v, want the file's path and the command that "+
			"restores it", err)
	}
	if _, err := command("approvals", "accept"); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("accept of a damaged file: %v", err)
	}
	out, err := command("restore")
	require.OK(t, err)
	for _, want := range []string{
		"is damaged: it is kept as", "shop:allowed: approved\n", "shop:changed: changed, waits for approval\n",
		"shop:shut: approved, disabled\n", "shop:waiting: waits for approval\n", "6 records reconciled",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("restore does not print %q:\n%s", want, out)
		}
	}
	kept, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("copies of the damaged file: %v, %v", kept, err)
	}
	if data, err := os.ReadFile(kept[0]); err != nil || string(data) != "damaged" {
		t.Errorf("the copy holds %q, %v", data, err)
	}
	s.check(os.RemoveAll(filepath.Join(s.dir, "catalog")))
	_, err = command("restore")
	if err == nil || !strings.Contains(err.Error(), "no tool catalog") {
		t.Errorf("without a catalog: %v", err)
	}
}
