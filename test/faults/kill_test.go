package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A victim is a stack whose sync function is killed at its writes, one after the other.
type victim struct {
	t       *testing.T
	proxy   *lambdatest.Proxy
	stack   *lambdatest.Stack
	fs, git *upstreamtest.Server
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	endpoint, key := emulator.Start(t), token.New()
	v := &victim{t: t, proxy: lambdatest.NewProxy(t, endpoint), fs: upstreamtest.New(t, upstreamtest.Options{}), git: upstreamtest.New(t, upstreamtest.Options{})}
	v.stack = lambdatest.NewStack(t, endpoint, lambdatest.Build(t, repo.Path("."), "mcp", "sync", "admin"), map[string]string{
		"AWS_ENDPOINT_URL": v.proxy.URL, "PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(key),
	})
	v.stack.Admin = key.Reveal()
	return v
}

// lists makes a server list tools with these names. "read+" is the changed definition of read.
func lists(s *upstreamtest.Server, names ...string) {
	var tools []json.RawMessage
	for _, name := range names {
		base, changed := strings.CutSuffix(name, "+")
		text := "Does " + base + "."
		if changed {
			text += " And something else."
		}
		tools = append(tools, upstreamtest.Tool(base, text, readOn))
	}
	s.SetTools(tools)
}

// configure gives the servers new URLs, so the gateway regards them as new servers.
func (v *victim) configure(run string) {
	v.t.Helper()
	v.stack.Configure(fmt.Sprintf(`{"mcpServers":{"fs%s":{"url":"%s/%[1]s"},"git%[1]s":{"url":"%[3]s/%[1]s"}}}`, run, v.fs.URL, v.git.URL))
}

// ordinary sets the first lists of the servers, and their config.
func (v *victim) ordinary(run string) {
	v.t.Helper()
	lists(v.fs, "read", "write")
	lists(v.git, "log")
	v.configure(run)
}

// killed runs a sync that is killed at its n-th write. It returns false if the sync made fewer
// writes.
func (v *victim) killed(n int, kept bool) bool {
	v.t.Helper()
	f := v.stack.Start(v.t, "sync")
	defer f.Stop()
	v.proxy.KillAt(n, kept, f.Stop)
	a, err := f.Try([]byte(`{}`))
	died := v.proxy.Killed()
	if died != (err != nil) || a.Failed {
		v.t.Errorf("write %d: the sync ended with %v, %s; killed: %t", n, err, a.Payload, died)
	}
	return died
}

// callable checks which tools may be called.
func (v *victim) callable(c *agenttest.Client, when, run string, want map[string]bool) {
	v.t.Helper()
	for name, may := range want {
		server, tool, _ := strings.Cut(name, ":")
		r := c.Call("call_tool_read", fmt.Sprintf(`{"name":"%s%s:%s","args":{}}`, server, run, tool))
		if r.IsError == may {
			v.t.Errorf("%s: answer for %s%s: %s", when, name, run, r.Text)
		}
	}
}

// If a sync function dies at any of its writes, the catalog stays complete, no tool is unlocked,
// and the next sync continues.
func TestKilledSync(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	deaths := 0
	for _, kept := range []bool{false, true} {
		for n := 1; v.first(n, kept); n++ {
			deaths++
		}
		for n := 1; v.later(n, kept); n++ {
			deaths++
		}
	}
	if t.Logf("the sync died %d times", deaths); deaths < 20 {
		t.Errorf("a sync died %d times, want at least 20", deaths)
	}
}

// first kills the first sync of the servers.
func (v *victim) first(n int, kept bool) bool {
	v.t.Helper()
	run, when := fmt.Sprintf("-first-%d-%t", n, kept), fmt.Sprintf("first sync, write %d, kept %t", n, kept)
	v.ordinary(run)
	died := v.killed(n, kept)
	v.stack.Sync(v.t)
	lists(v.fs, "read", "write", "late")
	v.stack.Sync(v.t)
	f := v.stack.Start(v.t, "mcp")
	defer f.Stop()
	v.callable(&f.Client, when, run, map[string]bool{"fs:read": true, "fs:write": true, "git:log": true, "fs:late": false})
	return died
}

// later kills a sync with new and changed tools, after a person disabled one tool.
func (v *victim) later(n int, kept bool) bool {
	v.t.Helper()
	run, when := fmt.Sprintf("-later-%d-%t", n, kept), fmt.Sprintf("later sync, write %d, kept %t", n, kept)
	v.ordinary(run)
	v.stack.Sync(v.t)
	admin := v.stack.Start(v.t, "admin")
	defer admin.Stop()
	admin.Ask(http.StatusOK, "/admin/tools/fs"+run+"/write/disable", "{}", nil)
	lists(v.fs, "read+", "write", "evil")
	lists(v.git, "log", "evil")
	died := v.killed(n, kept)
	want := map[string]bool{"fs:write": false, "git:log": true, "fs:evil": false, "git:evil": false}
	for range 2 {
		f := v.stack.Start(v.t, "mcp")
		if r := f.Call("retrieve_tools", `{"query":"log"}`); r.IsError || !strings.Contains(r.Text, "git"+run+":log") {
			v.t.Errorf("%s: a search answers %s", when, r.Text)
		}
		v.callable(&f.Client, when, run, want)
		f.Stop()
		v.stack.Sync(v.t)
		want["fs:read"] = false // the changed tool is pending since that sync
	}
	return died
}

// If the local program is killed during a sync, it finds its catalog and its decisions at the next
// start.
func TestKilledProgram(t *testing.T) {
	times := map[string]int{"small": 8, "full": 60}[os.Getenv("PORTCULLIS_LANES")]
	if times == 0 {
		t.Skip("make lanes runs it")
	}
	fs := upstreamtest.New(t, upstreamtest.Options{Forget: true})
	lists(fs, "read", "write")
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers":{"fs":{"url":%q}}}`, fs.URL))
	p := programtest.Start(t, dir)
	p.Ask(http.StatusOK, "/admin/tools/fs/write/disable", "{}", nil)
	names := []string{"read", "write"}
	for i := range times {
		evil := fmt.Sprintf("evil_%d", i)
		names = append(names, evil)
		lists(fs, names...)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r, err := http.NewRequest(http.MethodPost, p.URL+"/admin/sync", strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+p.Admin)
			r.Header.Set("Content-Type", "application/json")
			if answer, err := http.DefaultClient.Do(r); err == nil { // it may be killed before
				_ = answer.Body.Close()
			}
		}()
		<-time.After(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		p.Kill()
		<-gone
		p.Start()
		for name, may := range map[string]bool{"read": true, "write": false, evil: false} {
			if r := p.Call("call_tool_read", fmt.Sprintf(`{"name":"fs:%s","args":{}}`, name)); r.IsError == may {
				t.Errorf("kill %d: answer for fs:%s: %s", i, name, r.Text)
			}
		}
	}
	if n := len(agenttest.Pages[json.RawMessage](&p.Client, "tools", "tools", "")); n != len(names) {
		t.Errorf("the gateway has %d tools, want %d", n, len(names))
	}
}

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }
