package testclients

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// laptop returns the path of a config file as on a laptop, and its servers by name. Six servers are
// programs and three have a URL. The entries have the forms that different clients write.
func laptop(t *testing.T) (string, map[string]Server) {
	t.Helper()
	stdio, remote := Stdio(t), HTTP(t)
	as := func(s Server, more map[string]any) Server {
		entry := map[string]any{}
		for _, key := range []string{"command", "args", "env", "url"} {
			if v, ok := s.Entry[key]; ok {
				entry[key] = v
			}
		}
		for key, v := range more {
			entry[key] = v
		}
		s.Entry = entry
		return s
	}
	second := remote["everything"]
	second.Entry = map[string]any{"url": ServerEverything(t)}
	servers := map[string]Server{
		"filesystem":          as(stdio["files"], nil), // Claude Desktop
		"memory":              as(stdio["memory"], map[string]any{"type": "stdio"}),
		"everything":          as(stdio["everything"], map[string]any{"type": "stdio", "env": map[string]string{"LOG_LEVEL": "debug"}}),
		"sequential-thinking": as(stdio["thinking"], map[string]any{"disabled": false, "autoApprove": []string{"sequentialthinking"}}), // Cline
		"time":                as(stdio["time"], map[string]any{"disabled": false, "alwaysAllow": []string{}}),
		"git":                 as(stdio["git"], map[string]any{"type": "stdio", "cwd": t.TempDir()}), // VS Code
		"remote":              as(remote["everything"], map[string]any{"type": "http"}),
		"lanes":               as(remote["lanes"], map[string]any{"type": "streamableHttp", "disabled": false}),
		"plain":               as(second, nil), // Cursor
	}
	if lanes == "" { // only a part, as in each run of CI
		maps.DeleteFunc(servers, func(name string, _ Server) bool {
			return !slices.Contains([]string{"filesystem", "memory", "plain"}, name)
		})
	}
	entries := map[string]any{}
	for name, s := range servers {
		entries[name] = s.Entry
	}
	data, err := json.MarshalIndent(map[string]any{"mcpServers": entries}, "", "  ")
	require.OK(t, err)
	return string(data), servers
}

// known returns the servers of the API, by name.
func known(p *programtest.Program) map[string]decide.Server {
	var page struct{ Servers []decide.Server }
	p.Ask(http.StatusOK, "/admin/servers", nil, &page)
	out := map[string]decide.Server{}
	for _, s := range page.Servers {
		out[s.Name] = s
	}
	return out
}

// commands returns the names of the servers with a command.
func commands(servers map[string]Server) (names []string) {
	for name, s := range servers {
		if s.Entry["command"] != nil {
			names = append(names, name)
		}
	}
	return names
}

// TestLaptop starts the gateway with the config file of a laptop.
func TestLaptop(t *testing.T) {
	file, want := laptop(t)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, file)

	t.Run("with --allow-commands", func(t *testing.T) {
		p := programtest.Start(t, folder, "--allow-commands")
		var found map[string]decide.Server
		local.Until(t, "all servers have started", func() bool {
			found = known(p)
			for _, s := range found {
				if s.Outcome.Status == string(outcome.Transient) { // Python is slow to start
					return false
				}
			}
			return true
		})
		if len(found) != len(want) {
			t.Errorf("%d servers, want %d", len(found), len(want))
		}
		for name, s := range want {
			if got := found[name]; got.Outcome.Status != string(outcome.Available) || got.Tools.Callable < s.Tools {
				t.Errorf("%s is %s %s with %d tools, want %d at least", name, got.Outcome.Status, got.Outcome.Reason, got.Tools.Callable, s.Tools)
			}
			for _, try := range s.Calls {
				if text := callAny(t, p, name+":"+try.Name, try.Args); !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), try.Holds) {
					t.Errorf("%s:%s answers %s, want %q", name, try.Name, text, try.Holds)
				}
			}
		}
		children := descendants(t, p.PID())
		if programs := len(commands(want)); len(children) < programs {
			t.Errorf("%d programs are running, want at least %d", len(children), programs)
		}
		p.Stop()
		for _, pid := range children {
			gone(t, pid)
		}
	})

	t.Run("without", func(t *testing.T) { shownWithout(t, folder, want) })

	t.Run("killed", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/stat"); err != nil {
			t.Skip("only Linux ends programs whose parent was killed")
		}
		p := programtest.Start(t, folder, "--allow-commands")
		children := descendants(t, p.PID())
		p.Kill()
		for _, pid := range children {
			gone(t, pid)
		}
	})

	t.Run("checked", func(t *testing.T) {
		_, err := config.Parse([]byte(file))
		require.OK(t, err)
		out, err := exec.CommandContext(t.Context(), programtest.Build(t), "check", folder).CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d servers", len(want))) {
			t.Errorf("check: %v\n%s", err, out)
		}
	})
}

// shownWithout starts the gateway without --allow-commands. It checks that servers that are
// programs show the reason why they are not started.
func shownWithout(t *testing.T, folder string, want map[string]Server) {
	t.Helper()
	p := programtest.Start(t, folder)
	found := known(p)
	var list struct {
		Servers []struct{ Name, Message string }
	}
	p.CallJSON("upstream_servers", `{"operation":"list"}`, &list)
	messages := map[string]string{}
	for _, s := range list.Servers {
		messages[s.Name] = s.Message
	}
	for name, s := range want {
		got := found[name].Outcome
		if s.Entry["command"] == nil {
			if got.Status != string(outcome.Available) {
				t.Errorf("%s is %s %s", name, got.Status, got.Reason)
			}
			continue
		}
		message := fmt.Sprintf("MCP server '%s' is unavailable and needs attention: it is a program, and this gateway starts none: use --allow-commands, or serve it over HTTP. Its tools will not work until it is fixed.", name)
		if got.Status != string(outcome.Permanent) || got.Reason != "needs_command" || messages[name] != message {
			t.Errorf("%s is %s %s: %s", name, got.Status, got.Reason, messages[name])
		}
	}
	if text := callAny(t, p, "plain:echo", `{"message":"hello"}`); !strings.Contains(text, "Echo: hello") {
		t.Errorf("plain:echo answers %s", text)
	}
	if left := descendants(t, p.PID()); len(left) > 0 {
		t.Errorf("running programs: %v", left)
	}
}

// descendants returns the child processes of a process, their children, and so on.
func descendants(t *testing.T, pid int) (all []int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-eo", "pid=,ppid=").Output()
	require.OK(t, err)
	children := map[int][]int{}
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	local.Until(t, fmt.Sprintf("process %d has ended", pid), func() bool {
		out, _ := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() // ps fails if there is no such process
		state := strings.TrimSpace(string(out))
		return state == "" || state[0] == 'Z'
	})
}
