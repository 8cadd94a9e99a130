package testclients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sameDefinitions checks that a gateway in direct mode lists the definitions of the servers byte
// for byte, except for the names. It leaves out tools that run only as tasks. Gateway and test use
// the same protocol, because servers in Python write another order of members in each.
func sameDefinitions(t *testing.T, servers map[string]Server) {
	t.Helper()
	folder := t.TempDir()
	unlocked := maps.Clone(servers)
	for name, s := range unlocked {
		s.Lock, s.LockPrompt, s.LockResource = "", "", ""
		s.Entry = maps.Clone(s.Entry)
		s.Entry["protocol"] = mcp.VersionLegacy
		unlocked[name] = s
	}
	programtest.WriteConfig(t, folder, Config(t, unlocked, `{"mode": "direct"}`))
	p := programtest.Start(t, folder, "--allow-commands")
	p.UntilLoaded()
	for name, s := range unlocked {
		listed := map[string]string{}
		w := newWire(t, p.URL+"/mcp/x/"+name, "", true, "")
		for cursor := ""; len(listed) == 0 || cursor != ""; {
			params := map[string]any{}
			if cursor != "" {
				params["cursor"] = cursor
			}
			end, _ := last(w.ask(t.Context(), "tools/list", params))
			cursor = rawjson.Text(rawjson.Get(end.Result, "nextCursor"))
			addDefinitions(t, listed, end.Result, name+"__")
		}
		for tool, want := range s.definitions(t) {
			got, onlyTask := listed[tool], strings.Contains(want, `"taskSupport":"required"`)
			if got != want && !onlyTask {
				t.Errorf("%s:%s is listed as\n%s, want\n%s", name, tool, got, want)
			}
		}
	}
}

// addDefinitions adds the definitions of a list to a map, by their names without the prefix. It
// removes the name from a definition.
func addDefinitions(t *testing.T, to map[string]string, list json.RawMessage, prefix string) {
	t.Helper()
	tools, err := rawjson.Elements(rawjson.Get(list, "tools"))
	require.OK(t, err)
	for _, raw := range tools {
		o, err := rawjson.Split(raw, rawjson.Lenient)
		require.OK(t, err)
		name := rawjson.Text(o.Get("name"))[len(prefix):]
		o.Delete("name")
		to[name] = string(o.Bytes())
	}
}

// definitions returns the definitions that a program lists, by name.
func (s Server) definitions(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(),
		s.Entry["command"].(string),
		s.Entry["args"].([]string)...)
	cmd.Env = os.Environ()
	if env, ok := s.Entry["env"].(map[string]string); ok {
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	in, err := cmd.StdinPipe()
	require.OK(t, err)
	out, err := cmd.StdoutPipe()
	require.OK(t, err)
	require.OK(t, cmd.Start())
	defer func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":{},"clientInfo":{"name":"lanes","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
	} {
		_, err := fmt.Fprintln(in, line)
		require.OK(t, err)
	}
	listed := map[string]string{}
	for r := bufio.NewReader(out); len(listed) == 0; {
		line, err := r.ReadBytes('\n')
		require.OK(t, err)
		if string(rawjson.Get(line, "id")) == "2" {
			addDefinitions(t, listed, rawjson.Get(line, "result"), "")
		}
	}
	return listed
}
