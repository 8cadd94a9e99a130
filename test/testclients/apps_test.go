package testclients

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// appServers returns the example servers of MCP Apps. The servers clock and react have a page with
// the same URI and a tool with the same name.
func appServers(t testing.TB) map[string]Server {
	t.Helper()
	if lanes == "" {
		t.Skip("the servers are 75 MB of packages: make lanes installs and runs them")
	}
	node, folder := findNode(t), filepath.Join(dir(), "apps/node_modules/@modelcontextprotocol")
	if _, err := os.Stat(folder); err != nil {
		local.Missing(t, "the example servers of MCP Apps are not installed: make apps")
	}
	out := map[string]Server{}
	for name, module := range map[string]string{
		"clock": "basic-vanillajs", "react": "basic-react",
		"monitor": "system-monitor", "budget": "budget-allocator",
	} {
		out[name] = Server{
			Entry: entry(node, filepath.Join(folder, "server-"+module, "dist/index.js"), "--stdio"),
		}
	}
	return out
}

// appHost serves the page of the host, and returns its address.
func appHost(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "node_modules/.bin/esbuild", "host.mjs",
		"--bundle", "--format=esm", "--platform=browser",
		"--outfile="+filepath.Join(folder, "host.js"))
	build.Dir = filepath.Join(dir(), "apps")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const page = `<!doctype html><title>Host</title><link rel="icon" href="data:,">` +
		`<main></main><script type="module" src="host.js"></script>`
	require.OK(t, os.WriteFile(filepath.Join(folder, "index.html"), []byte(page), 0o600))
	s := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(s.Close)
	return s.URL
}

// An appTab is a tab with the host.
type appTab struct{ *browsertest.Tab }

func openHost(t testing.TB, host, gateway string) appTab {
	t.Helper()
	h := appTab{browsertest.Open(t, host, gateway)}
	h.Forgive("can escape its sandboxing") // see host.mjs
	h.Goto("/")
	return h
}

// connect connects the host to a gateway, and checks which tools the host offers to its model.
func (h appTab) connect(url, mode string, offered ...string) {
	h.T.Helper()
	version := browsertest.Eval[string](h.Tab, fmt.Sprintf(`host.connect(%q, %q)`, url, mode))
	if got := browsertest.Eval[[]string](h.Tab, `host.offered()`); !slices.Equal(got, offered) {
		h.T.Errorf("%s: the model gets %s, want %s", version, got, offered)
	}
}

// open shows the page of a tool in the frame id.
func (h appTab) open(tool, id string) {
	h.T.Helper()
	browsertest.Eval[any](h.Tab, fmt.Sprintf(`host.open(%q, %q)`, tool, id))
}

// shows waits until an element in a frame has a text that matches a regular expression.
func (h appTab) shows(id, selector, pattern string) {
	h.T.Helper()
	h.Until(
		id+" "+selector+" shows "+pattern,
		fmt.Sprintf(`/%s/.test(host.within(%q, %q)?.textContent)`, pattern, id, selector),
	)
}

// click clicks a button in a frame.
func (h appTab) click(id, selector string) {
	h.T.Helper()
	browsertest.Eval[any](h.Tab, fmt.Sprintf(`void host.within(%q, %q).click()`, id, selector))
}

// clear empties an element in a frame, so that a later text in it is new.
func (h appTab) clear(id, selector string) {
	h.T.Helper()
	empty := fmt.Sprintf(`void (host.within(%q, %q).textContent = '')`, id, selector)
	browsertest.Eval[any](h.Tab, empty)
}

// calls calls a tool as a page does, and checks the text of the answer.
func (h appTab) calls(tool, want string) {
	h.T.Helper()
	got := browsertest.Eval[string](h.Tab, fmt.Sprintf(`host.call(%q)`, tool))
	if !strings.Contains(got, want) {
		h.T.Errorf("a page calls %s: %s, want %s", tool, got, want)
	}
}

// shown opens the pages of all servers, and uses their buttons.
func (h appTab) shown() {
	h.T.Helper()
	const date = `\d{4}-\d\d-\d\dT|\d+\/\d+\/\d{4}`
	h.open("clock__get-time", "clock")
	h.shows("clock", "#server-time", date) // of the call that opened the page
	h.clear("clock", "#server-time")
	h.click("clock", "#get-time-btn")
	h.shows("clock", "#server-time", date) // of the page's own call
	h.open("react__get-time", "react")     // another page at the same URI
	h.shows("react", "#root", date)
	h.open("monitor__get-system-info", "monitor")
	h.shows("monitor", "#memory-percent", `\d+%`) // it calls a tool that only pages call
	h.click("monitor", "#poll-toggle-btn")
	h.shows("monitor", "#status-text", `Stopped`)
	h.open("budget__get-budget-data", "budget")
	h.shows("budget", "#status-bar", `Allocated: \$[1-9]`)
}

// The pages of the example servers work in a host behind the gateway, in both modes, for clients of
// both protocols. A page of another server cannot call their tools.
func TestApps(t *testing.T) {
	servers, host := appServers(t), appHost(t)
	t.Setenv("PORTCULLIS_ALLOW_ORIGINS", host)
	for mode, own := range map[string]string{
		"direct": "",
		"search": " call_tool_read call_tool_write call_tool_destructive describe_tools " +
			"read_resource retrieve_tools upstream_servers",
	} {
		folder := t.TempDir()
		settings := fmt.Sprintf(`{"mode": %q, "requests": false}`, mode)
		programtest.WriteConfig(t, folder, Config(t, servers, settings))
		p := programtest.Start(t, folder, "--allow-commands")
		const paged = "budget__get-budget-data clock__get-time " +
			"monitor__get-system-info react__get-time"
		offered := strings.Fields(paged + own)
		slices.Sort(offered)
		for _, protocol := range []string{"legacy", "auto"} {
			if lanes == "small" && (mode == "direct") != (protocol == "legacy") {
				continue
			}
			t.Run(mode+", "+protocol, func(t *testing.T) {
				h := openHost(t, host, p.URL)
				h.Forgive("status 400") // in the stateless protocol, the status of a refused call
				h.connect(p.URL+"/mcp", protocol, offered...)
				h.shown()
				const foreign = "not of the server whose page this client opened last"
				h.calls("poll-system-stats", foreign) // the last page is budget's
				h.calls("get-time", foreign)
				h.open("monitor__get-system-info", "again")
				h.calls("poll-system-stats", "usedBytes")
			})
		}
	}
}

// A page whose tool is locked is not passed on. If the tool is locked while the page is open, the
// page gets the reason.
func TestLockedApp(t *testing.T) {
	servers, host := appServers(t), appHost(t)
	t.Setenv("PORTCULLIS_ALLOW_ORIGINS", host)
	folder := t.TempDir()
	clock := map[string]Server{"clock": servers["clock"]}
	programtest.WriteConfig(
		t, folder, Config(t, clock, `{"mode": "direct", "requests": false}`))
	p := programtest.Start(t, folder, "--allow-commands")
	h := openHost(t, host, p.URL)
	h.connect(p.URL+"/mcp", "legacy", "clock__get-time")
	h.open("clock__get-time", "open")
	p.Ask(http.StatusOK, "/admin/tools/clock/get-time/disable", map[string]any{}, nil)
	h.calls("get-time", `Tool "clock:get-time" is locked: disabled_by_user.`)
	refused := browsertest.Eval[string](
		h.Tab,
		`host.read('ui://get-time/mcp-app.html').catch((e) => e.message)`,
	)
	if !strings.Contains(refused, `Tool "clock:get-time" is locked: disabled_by_user.`) {
		t.Errorf("the page is read: %s", refused)
	}
	h.connect(p.URL+"/mcp", "legacy")
}
