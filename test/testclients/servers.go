package testclients

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Server is a server of another project, and the requests that tests send to it.
type Server struct {
	Entry     map[string]any // entry in mcp_config.json
	Tools     int            // smallest number of listed tools
	Calls     []Try          // calls of tools
	Prompts   []Try          // prompts to get
	Resources []Try          // resources to read, by their URI

	Lock, LockPrompt, LockResource string // a tool, a prompt and a resource that are locked; "": none
}

// A Try is a request, and a text that its answer must contain.
type Try struct {
	Name, Args, Holds string
}

// entry returns the config entry of a server with a command.
func entry(command string, args ...string) map[string]any {
	return map[string]any{"command": command, "args": args, "approval": "off"}
}

const everythingDoc = "demo://resource/static/document/"

// Stdio returns the real servers on standard input and output, by their names in the config.
func Stdio(t testing.TB) map[string]Server {
	t.Helper()
	node, python, folder, sources := findNode(t), findPython(t), t.TempDir(), repository(t)
	module := func(name string) string {
		return filepath.Join(dir(), "node_modules/@modelcontextprotocol", name, "dist/index.js")
	}
	require.OK(t, os.WriteFile(filepath.Join(folder, "note.txt"), []byte("Water the plants."), 0o600))
	memory := entry(node, module("server-memory"))
	memory["env"] = map[string]string{"MEMORY_FILE_PATH": filepath.Join(folder, "memory.jsonl")}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "A page about plants.") }))
	t.Cleanup(page.Close)
	grafana := entry(filepath.Join(filepath.Dir(python), "mcp-grafana"), "-t", "stdio")
	grafana["env"] = map[string]string{
		"GRAFANA_URL": page.URL, "GRAFANA_SERVICE_ACCOUNT_TOKEN": "none",
	}
	return map[string]Server{
		"everything": {
			Entry: entry(node, module("server-everything"), "stdio"), Tools: 16, Lock: "get-sum",
			Calls:      []Try{{"echo", `{"message":"hello"}`, "Echo: hello"}},
			Prompts:    []Try{{"args-prompt", `{"city":"Paris"}`, "Paris"}},
			Resources:  []Try{{everythingDoc + "features.md", "", "Everything Server"}, {"demo://resource/dynamic/text/7", "", "Resource 7"}},
			LockPrompt: "simple-prompt", LockResource: everythingDoc + "startup.md",
		},
		"files": {
			Entry: entry(node, module("server-filesystem"), folder), Tools: 10, Lock: "write_file",
			Calls: []Try{{"read_text_file", `{"path":` + quote(filepath.Join(folder, "note.txt")) + `}`, "Water the plants."}},
		},
		"memory": {
			Entry: memory, Tools: 8, Lock: "delete_entities",
			Calls: []Try{
				{"create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`, "Ada"},
				{"search_nodes", `{"query":"Ada"}`, "counts"},
			},
		},
		"thinking": {
			Entry: entry(node, module("server-sequential-thinking")), Tools: 1,
			Calls: []Try{{"sequentialthinking", `{"thought":"plants need water","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, "thoughtHistoryLength"}},
		},
		"time": {
			Entry: entry(python, "-m", "mcp_server_time", "--local-timezone", "UTC"), Tools: 2, Lock: "convert_time",
			Calls: []Try{{"get_current_time", `{"timezone":"UTC"}`, "UTC"}},
		},
		"git": {
			Entry: entry(python, "-m", "mcp_server_git", "--repository", sources), Tools: 10, Lock: "git_reset",
			Calls: []Try{{"git_log", `{"repo_path":` + quote(sources) + `}`, "the first commit"}},
		},
		"fetch": {
			Entry: entry(python, "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"), Tools: 1,
			Calls:   []Try{{"fetch", `{"url":` + quote(page.URL) + `}`, "A page about plants."}},
			Prompts: []Try{{"fetch", `{"url":` + quote(page.URL) + `}`, "A page about plants."}},
		},
		"grafana": { // without a Grafana: its calls answer with its own error
			Entry: grafana, Tools: 60, Lock: "update_dashboard",
			Calls: []Try{{"list_datasources", `{}`, "list datasources: "}},
		},
		"lanes": {
			Entry: entry(python, filepath.Join(dir(), "server.py")), Tools: 8, Lock: "die",
			Calls:      []Try{{"count", `{"steps":3,"every":0}`, "counted to 3"}},
			Prompts:    []Try{{"summarize", `{"topic":"Go"}`, "Summarize Go in one sentence."}},
			Resources:  []Try{{"notes://today", "", "Water the plants."}, {"notes://day/monday", "", "On monday: nothing."}},
			LockPrompt: "shout", LockResource: "notes://secret",
		},
	}
}

// GitHub returns GitHub's server. It has no valid token, so its calls answer with its own error.
// Its first build takes half a minute.
func GitHub(t testing.TB) Server {
	t.Helper()
	const host = "http://127.0.0.1:1" // nothing listens there
	program := buildGo(t, "servers", "github.com/github/github-mcp-server/cmd/github-mcp-server")
	e := entry(program, "stdio", "--gh-host", host)
	e["env"] = map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "none"}
	return Server{
		Entry: e, Tools: 40, Lock: "delete_file",
		Calls: []Try{{"get_me", `{}`, "failed to get user"}},
	}
}

// HTTP returns the real servers over HTTP, by their names in the config. They run until the test
// ends.
func HTTP(t testing.TB) map[string]Server {
	t.Helper()
	stdio := Stdio(t)
	remote := map[string]Server{"everything": stdio["everything"], "lanes": stdio["lanes"]}
	for name, url := range map[string]string{"everything": ServerEverything(t), "lanes": Lanes(t)} {
		s := remote[name]
		s.Entry = map[string]any{"url": url, "approval": "off"}
		remote[name] = s
	}
	return remote
}

// Config returns a config with servers, each with its locks, and the members of "gateway".
func Config(t testing.TB, servers map[string]Server, gateway string) string {
	t.Helper()
	entries := map[string]any{}
	for name, s := range servers {
		e := maps.Clone(s.Entry)
		for key, lock := range map[string]string{"disabled_tools": s.Lock, "disabled_prompts": s.LockPrompt, "disabled_resources": s.LockResource} {
			if lock != "" {
				e[key] = []string{lock}
			}
		}
		entries[name] = e
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries, "gateway": json.RawMessage(gateway)})
	require.OK(t, err)
	return string(data)
}

// Lanes starts the server of server.py on loopback and returns its address. It ends with the test.
func Lanes(t testing.TB) string {
	t.Helper()
	addr := local.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(t.Context(), findPython(t), "server.py", port)
	cmd.Dir = dir()
	return "http://" + serve(t, addr, cmd) + "/mcp"
}

// repository makes a git repository with one commit.
func repository(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	for _, args := range [][]string{{"init", "-q", folder}, {"-C", folder, "commit", "-q", "--allow-empty", "-m", "the first commit"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			local.Missing(t, fmt.Sprintf("git %s: %v\n%s", strings.Join(args, " "), err, out))
		}
	}
	return folder
}

func quote(s string) string { return string(rawjson.Quote(s)) }
