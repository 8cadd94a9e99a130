package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	stops "github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An evening is the folder of a gateway that ended without a last sync. After the catalog was made,
// people decided about tools that were callable, except for waiting and off:
//
//	plain     nothing
//	blocked   block
//	off2      disable
//	undone    block, undo
//	reopened  disable, enable
//	waiting   approve; it waits in the catalog
//	off       enable; it is disabled in the catalog
//	unblocked block, unblock: it waits
//
// They also stopped an agent, and stopped a server and undid that stop.
type evening struct {
	t      *testing.T
	dir    string
	first  []byte // approvals.db after the first sync
	synced []byte // approvals.db when the catalog was made
}

var atEvening = []string{"plain", "blocked", "off2", "undone", "reopened", "waiting", "off", "unblocked"}

// toolsNamed returns the tools of a server, each of which is read-only.
func toolsNamed(names ...string) (tools []json.RawMessage) {
	for _, name := range names {
		tools = append(tools, upstreamtest.Tool(name, "Does "+name+".", `{"readOnlyHint":true}`))
	}
	return tools
}

func newEvening(t *testing.T) *evening {
	t.Helper()
	e := &evening{t: t, dir: filepath.Join(t.TempDir(), "gateway")}
	up := upstreamtest.New(t, upstreamtest.Options{Tools: toolsNamed(slices.DeleteFunc(slices.Clone(atEvening), func(n string) bool { return n == "waiting" })...)})
	programtest.WriteConfig(t, e.dir, fmt.Sprintf(`{"mcpServers": {"shop": {"url": %q}}}`, up.URL))
	e.open(e.dir, func(ask ask, sync func()) {
		sync()
		e.first = e.file()
		ask.decide("off", "disable")
		up.SetTools(toolsNamed(atEvening...))
		sync()
	})
	e.synced = e.file()
	e.open(e.dir, func(ask ask, _ func()) {
		ask.decide("blocked", "block")
		ask.decide("off2", "disable")
		ask.decide("undone", "block")
		ask.decide("undone", "undo")
		ask.decide("reopened", "disable")
		ask.decide("reopened", "enable")
		ask.decide("waiting", "approve")
		ask.decide("off", "enable")
		ask.decide("unblocked", "block")
		ask.decide("unblocked", "unblock")
		ask.post("/admin/stop", `{"agent":"token:bot","reason":"it loops"}`)
		ask.post("/admin/stop", `{"server":"shop","reason":"by mistake"}`)
		ask.post("/admin/stop/undo", `{"server":"shop"}`)
	})
	return e
}

// An ask calls the admin API of an opened gateway.
type ask func(method, path, body string) []byte

func (a ask) post(path, body string) []byte { return a(http.MethodPost, path, body) }

// decide decides about a tool of the shop in its shown state.
func (a ask) decide(name, verb string) {
	path := "/admin/tools/shop/" + name
	var shown struct {
		Hash   string
		Record struct{ Rev int64 }
	}
	if err := json.Unmarshal(a(http.MethodGet, path, ""), &shown); err != nil {
		panic(err)
	}
	body := fmt.Sprintf(`{"hash":%q}`, shown.Hash)
	if verb == "undo" {
		body = fmt.Sprintf(`{"rev":%d}`, shown.Record.Rev)
	}
	a.post(path+"/"+verb, body)
}

// open opens the gateway of a folder, like a command.
func (e *evening) open(root string, do func(ask ask, sync func())) {
	e.t.Helper()
	_, l, err := folder.OpenGateway(e.t.Context(), root, "ann", folder.Options{}, noEnv, io.Discard)
	require.OK(e.t, err)
	defer l.Close(context.WithoutCancel(e.t.Context()))
	do(func(method, path, body string) []byte {
		e.t.Helper()
		r, err := http.NewRequestWithContext(e.t.Context(), method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
		require.OK(e.t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := l.RoundTrip(r)
		require.OK(e.t, err)
		data, err := io.ReadAll(answer.Body)
		require.OK(e.t, err)
		if answer.StatusCode != http.StatusOK {
			e.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, data)
		}
		return data
	}, func() {
		e.t.Helper()
		_, err := l.Program.Sync(e.t.Context())
		require.OK(e.t, err)
	})
}

func (e *evening) file() []byte {
	e.t.Helper()
	data, err := os.ReadFile(filepath.Join(e.dir, folder.ApprovalsFile))
	require.OK(e.t, err)
	return data
}

// copy returns a copy of the folder.
func (e *evening) copy() string {
	e.t.Helper()
	root := filepath.Join(e.t.TempDir(), "gateway")
	require.OK(e.t, os.CopyFS(root, os.DirFS(e.dir)))
	require.OK(e.t, os.Chmod(filepath.Join(root, "seal.key"), 0o600))
	return root
}

// restore runs portcullis restore, and returns its output.
func (e *evening) restore(root string) string {
	e.t.Helper()
	var out strings.Builder
	env := &environment{getenv: os.Getenv, stdout: &out, stderr: io.Discard}
	args := []string{"restore", "--dir", root, "--actor", "kim"}
	require.OK(e.t, run(e.t.Context(), args, env))
	return out.String()
}

// states returns the state of each tool in the store.
func (e *evening) states(root string) map[string]string {
	e.t.Helper()
	s, err := bolt.Open(filepath.Join(root, folder.ApprovalsFile), nil)
	require.OK(e.t, err)
	defer s.Close()
	out := map[string]string{}
	for _, name := range atEvening {
		r, err := s.Get(e.t.Context(), tool.ID{Server: "shop", Name: name})
		if errors.Is(err, approval.ErrNotFound) {
			continue
		}
		require.OK(e.t, err)
		if out[name] = stateOf(r.State, r.Disabled); r.Loss != nil {
			out[name] += ", lost"
		}
	}
	stopped, err := stops.Read(e.t.Context(), s)
	require.OK(e.t, err)
	for _, held := range stopped.List {
		out["stop"] += held.String() + " " + held.Note()
	}
	return out
}

// afterRestore returns the states of the tools after a replay of the audit: locked tools are
// locked, and tools that were unlocked have the catalog's state.
func afterRestore() map[string]string {
	return map[string]string{
		"plain": "approved", "blocked": "blocked", "off2": "approved, disabled", "undone": "approved", "reopened": "approved",
		"waiting": "waits for approval", "off": "approved, disabled", "unblocked": "waits for approval",
		"stop": `agent "token:bot" stopped by ann: it loops`,
	}
}

// losses returns the ways to lose approvals.db after the catalog was made.
func (e *evening) losses() map[string]func(path string) error {
	return map[string]func(path string) error{
		"deleted": os.Remove,
		"emptied": func(path string) error {
			require.OK(e.t, os.Remove(path))
			s, err := bolt.Open(path, nil)
			require.OK(e.t, err)
			return s.Close()
		},
		"damaged":                      func(path string) error { return os.WriteFile(path, []byte("damaged"), 0o600) },
		"set back to before that":      func(path string) error { return os.WriteFile(path, e.first, 0o600) },
		"set back to the last catalog": func(path string) error { return os.WriteFile(path, e.synced, 0o600) },
	}
}

// Tools that people locked after the last sync are locked after a restore. This holds for every
// loss of approvals.db, with or without a sync before the restore, and after every repetition. The
// restore does not unlock tools that people unlocked.
func TestRestoreReplaysTheAudit(t *testing.T) {
	e := newEvening(t)
	for name, lose := range e.losses() {
		for _, synced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, synced %t", name, synced), func(t *testing.T) {
				e := &evening{t: t, dir: e.dir}
				root := e.copy()
				require.OK(t, lose(filepath.Join(root, folder.ApprovalsFile)))
				if synced && name != "damaged" {
					e.open(root, func(_ ask, sync func()) { sync() })
				}
				first := e.restore(root)
				if diff := cmp.Diff(afterRestore(), e.states(root)); diff != "" {
					t.Errorf("after a restore (-want +got):\n%s\n%s", diff, first)
				}
				for _, want := range []string{"shop:blocked: block by ann, ", "shop:off2: disable by ann, ", "shop:unblocked: block by ann, ", "agent:token:bot: stop by ann, "} {
					if !strings.Contains(first, "locked again by decisions in the audit that are newer than the catalog:\n") || !strings.Contains(first, want) {
						t.Errorf("it does not say %q:\n%s", want, first)
					}
				}
				for _, want := range []string{"not unlocked; if the decision is still right, decide again:\n", "shop:waiting: approve by ann, ", "shop:off: enable by ann, "} {
					if !strings.Contains(first, want) {
						t.Errorf("it does not say %q:\n%s", want, first)
					}
				}
				if again := e.restore(root); !strings.HasPrefix(again, "0 records reconciled; no other record was lost\n") || strings.Contains(again, "locked again") {
					t.Errorf("a second restore prints %q, want 0 records", again)
				}
				e.open(root, func(_ ask, sync func()) { sync() })
				if diff := cmp.Diff(afterRestore(), e.states(root)); diff != "" {
					t.Errorf("after the next sync (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The API of a gateway on the folder replays the audit like the command.
func TestRestoreByTheAPI(t *testing.T) {
	e := newEvening(t)
	root := e.copy()
	require.OK(t, os.Remove(filepath.Join(root, folder.ApprovalsFile)))
	e.open(root, func(ask ask, sync func()) {
		sync()
		var out struct {
			Settled int
			Closed  []struct{ About, Action, By string }
			Decide  []struct{ About string } `json:"decide_again"`
			Skipped []string
		}
		require.OK(t, json.Unmarshal(ask.post("/admin/approvals/restore", "{}"), &out))
		var closed []string
		for _, c := range out.Closed {
			closed = append(closed, c.About+" "+c.Action+" "+c.By)
		}
		want := []string{"shop:blocked block ann", "shop:off2 disable ann", "shop:unblocked block ann", "agent:token:bot stop ann"}
		if diff := cmp.Diff(want, closed); diff != "" || out.Settled != len(atEvening) || len(out.Decide) != 2 || len(out.Skipped) > 0 {
			t.Errorf("the answer is %+v (-want +got):\n%s", out, diff)
		}
	})
	if diff := cmp.Diff(afterRestore(), e.states(root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A restore that is interrupted at any write unlocks nothing, and the next restore completes it.
func TestRestoreInterrupted(t *testing.T) {
	e := newEvening(t)
	root := e.copy()
	require.OK(t, os.Remove(filepath.Join(root, folder.ApprovalsFile)))
	snap, err := catalog.Load(t.Context(), dir.New(root), nil)
	require.OK(t, err)
	errStop := errors.New("interrupted")
	interrupted := 0
	for n := 1; ; n++ {
		require.OK(t, os.RemoveAll(filepath.Join(root, folder.ApprovalsFile)))
		s, err := bolt.Open(filepath.Join(root, folder.ApprovalsFile), nil)
		require.OK(t, err)
		f := &failing{Store: s, left: n, err: errStop}
		p := auditevent.Restorer{Audit: audit.Folder(filepath.Join(root, folder.AuditFolder)), Approvals: f, Stops: stops.NewStore(f), Now: time.Now}
		_, err = p.Restore(t.Context(), snap, "kim", nil)
		require.OK(t, s.Close())
		if err != nil && !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
		interrupted++
		got := e.states(root)
		for name, want := range afterRestore() {
			if s, is := got[name]; is && s != want && !strings.HasSuffix(s, ", lost") {
				t.Errorf("after an interrupt at write %d, %s is %q, want %q", n, name, s, want)
			}
		}
		e.restore(root)
		if diff := cmp.Diff(afterRestore(), e.states(root)); diff != "" {
			t.Fatalf("interrupted at write %d, and run again (-want +got):\n%s", n, diff)
		}
	}
	if interrupted < 2*len(atEvening) {
		t.Errorf("only %d writes were interrupted", interrupted)
	}
}

// A failing store fails at one write. It stores that write, as if only the answer was lost, and
// stores no later write.
type failing struct {
	*bolt.Store
	left int // writes before the failure
	err  error
}

func (f *failing) fails() (kept bool, err error) {
	f.left--
	if f.left <= 0 {
		return f.left == 0 && f.err != nil, f.err
	}
	return true, nil
}

// Put implements [approval.Store].
func (f *failing) Put(ctx context.Context, r approval.Record, e *approval.Entry) (approval.Record, error) {
	kept, failed := f.fails()
	if !kept {
		return r, failed
	}
	next, err := f.Store.Put(ctx, r, e)
	return next, errors.Join(err, failed)
}

// PutDocs implements [document.Store].
func (f *failing) PutDocs(ctx context.Context, docs ...document.Doc) error {
	kept, failed := f.fails()
	if !kept {
		return failed
	}
	return errors.Join(f.Store.PutDocs(ctx, docs...), failed)
}

// Damaged, truncated, forged or foreign lines unlock nothing. Each tool has the state that it has
// with the intact audit, or a stricter state.
func TestRestoreWithASpoiltAudit(t *testing.T) {
	e, other := newEvening(t), newEvening(t)
	shut := map[string]bool{"blocked": true, "off2": true, "waiting": true, "off": true, "unblocked": true}
	for name, test := range map[string]struct {
		spoil   func(data []byte) []byte
		opens   []string // tools whose lock the audit no longer contains
		skipped bool
	}{
		"a forged line enables a disabled tool": {func(data []byte) []byte {
			later := time.Now().UTC().Add(time.Hour).Format(time.RFC3339Nano)
			return fmt.Appendf(data, `{"v":1,"time":%q,"kind":"deed","tool":"shop:off2","actor":"eve",`+
				`"action":"enable","prev":"%064d"}`+"\n", later, 0)
		}, nil, true},
		"a disable that became an enable": {func(data []byte) []byte {
			return bytes.ReplaceAll(data, []byte(`"action":"block"`), []byte(`"action":"unblock"`))
		}, []string{"blocked", "unblocked"}, true},
		"cut off": {func(data []byte) []byte {
			before, _, _ := bytes.Cut(data, []byte("it loops"))
			return before
		}, nil, true},
		"no text":         {func([]byte) []byte { return bytes.Repeat([]byte{0, 255, '\n'}, 1000) }, []string{"blocked", "off2", "unblocked"}, true},
		"a foreign audit": {func([]byte) []byte { return other.audit(other.dir) }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &evening{t: t, dir: e.dir}
			root := e.copy()
			require.OK(t, os.Remove(filepath.Join(root, folder.ApprovalsFile)))
			files, err := filepath.Glob(filepath.Join(root, folder.AuditFolder, "*.jsonl"))
			require.OK(t, err)
			for _, path := range files {
				require.OK(t, os.WriteFile(path, test.spoil(e.audit(root)), 0o600))
			}
			out := e.restore(root)
			for name, state := range e.states(root) {
				if name != "stop" && state == "approved" && shut[name] && !slices.Contains(test.opens, name) {
					t.Errorf("%s is open:\n%s", name, out)
				}
			}
			if said := strings.Contains(out, "nothing in these places unlocks a tool"); said != test.skipped {
				t.Errorf("reports skipped lines: %t, want %t\n%s", said, test.skipped, out)
			}
		})
	}
}

// audit returns the audit of a folder, of one day or two.
func (e *evening) audit(root string) (all []byte) {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder.AuditFolder, "*.jsonl"))
	require.OK(e.t, err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		require.OK(e.t, err)
		all = append(all, data...)
	}
	return all
}
