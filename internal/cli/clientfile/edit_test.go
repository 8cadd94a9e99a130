package clientfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const addition = `{
  "mcpServers": {
    "gate": {
      "url": "https://gate.example.com/mcp"
    }
  }
}
`

// Merge adds an entry to a file, Remove removes it, and nothing else changes.
func TestMergeAndRemove(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"nothing there": {"{}\n", addition},
		"other members": {
			"{\n\t\"theme\": \"dark\", // mine\n\t\"n\": [1,2 , 3]\n}\n",
			"{\n\t\"theme\": \"dark\", // mine\n\t\"n\": [1,2 , 3],\n\t\"mcpServers\": {\n\t\t\"gate\": {\n\t\t\t\"url\": \"https://gate.example.com/mcp\"\n\t\t}\n\t}\n}\n",
		},
		"another server": {
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"} // the first\n    }\n}",
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"}, // the first\n        \"gate\": {\n            \"url\": \"https://gate.example.com/mcp\"\n        }\n    }\n}",
		},
		"a trailing comma": {
			"{\n  \"mcpServers\": {\n    \"a\": {},\n    // the last\n  },\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {},\n    // the last\n    \"gate\": {\n      \"url\": \"https://gate.example.com/mcp\"\n    },\n  },\n}\n",
		},
		"one line":          {`{"mcpServers": {"a": {"command": "x"}}}`, `{"mcpServers": {"a": {"command": "x"}, "gate": {"url":"https://gate.example.com/mcp"}}}`},
		"carriages":         {"{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", "{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"gate\": {\r\n      \"url\": \"https://gate.example.com/mcp\"\r\n    }\r\n  }\r\n}\r\n"},
		"a byte order mark": {"\ufeff{\n  \"mcpServers\": {}\n}", "\ufeff{\n  \"mcpServers\": {\n    \"gate\": {\n      \"url\": \"https://gate.example.com/mcp\"\n    }\n  }\n}"},
	} {
		got, err := clientfile.Merge("f.json", []byte(tt.before), []byte(addition), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.after, string(got.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		again, err := clientfile.Merge("f.json", got.Data, []byte(addition), false)
		if err != nil || !again.Same || string(again.Data) != string(got.Data) {
			t.Errorf("%s, merged again: %v, %q", name, err, again.Data)
		}
		back, err := clientfile.Remove("f.json", got.Data, "mcpServers", "gate")
		require.OK(t, err)
		if left := strings.NewReplacer("{\n  \"mcpServers\": {}\n}\n", "{}\n", ",\n\t\"mcpServers\": {}", "").Replace(string(back.Data)); left != tt.before {
			t.Errorf("%s: after Remove:\n%q, want\n%q", name, back.Data, tt.before)
		}
	}
}

func TestMergeTOML(t *testing.T) {
	const entry = "[mcp_servers.gate]\nurl = \"https://gate.example.com/mcp\"\n"
	const other = "# my own\nmodel = \"x\"\n\n[mcp_servers.a] # the first\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n  \"a\",\n]\n\n[mcp_servers.a.env]\nK = \"v\"\n"
	alone, err := clientfile.Remove("config.toml", []byte(entry), "mcp_servers", "gate")
	if err != nil || alone.Same || len(alone.Data) != 0 {
		t.Errorf("the file without its only entry: %q, %v; want no bytes", alone.Data, err)
	}
	got, err := clientfile.Merge("config.toml", []byte(other), []byte(entry), false)
	require.OK(t, err)
	if want := other + "\n" + entry; string(got.Data) != want {
		t.Errorf("%s", cmp.Diff(want, string(got.Data)))
	}
	if _, err := clientfile.Merge("config.toml", got.Data, []byte(strings.Replace(entry, "gate.", "gate2.", 1)), false); err == nil || !strings.Contains(err.Error(), "config.toml:14: an entry with that name") {
		t.Errorf("another one: %v", err)
	}
	back, err := clientfile.Remove("config.toml", got.Data, "mcp_servers", "gate")
	require.OK(t, err)
	if string(back.Data) != other {
		t.Errorf("%s", cmp.Diff(other, string(back.Data)))
	}
	between := "[mcp_servers.gate]\nurl = \"x\"\nhttp_headers = { A = \"b\" }\n[mcp_servers.gate.tools]\na = 1\n\n# of the next\n[tui]\nx = 1\n"
	back, err = clientfile.Remove("config.toml", []byte(between), "mcp_servers", "gate")
	if require.OK(t, err); string(back.Data) != "# of the next\n[tui]\nx = 1\n" {
		t.Errorf("%q", back.Data)
	}
	replaced, err := clientfile.Merge("config.toml", []byte(between), []byte(entry), true)
	if require.OK(t, err); string(replaced.Data) != "# of the next\n[tui]\nx = 1\n\n"+entry {
		t.Errorf("%q", replaced.Data)
	}
	for _, inline := range []string{"mcp_servers = { a = { command = \"x\" } }\n", "mcp_servers.gate.url = \"y\"\n"} {
		if got, err := clientfile.Merge("config.toml", []byte(inline), []byte(entry), true); err == nil || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%q becomes %q, %v", inline, got.Data, err)
		}
	}
}
