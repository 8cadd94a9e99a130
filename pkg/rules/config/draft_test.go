package config_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

var clearKey = "ghp_" + strings.Repeat("0a1b2c", 6)

// The entry has references as they are typed, and no clear text that looks like a secret.
func TestDraft(t *testing.T) {
	for name, tt := range map[string]struct {
		draft config.Draft
		want  string // the entry, or a part of the error
	}{
		"url": {
			config.Draft{
				URL: "https://a.example/", Headers: []string{"X-A: Bearer ${env:A}", "X-B:c"},
				Approval: "manual",
			},
			`{"approval":"manual","url":"https://a.example/",` +
				`"headers":{"X-A":"Bearer ${env:A}","X-B":"c"}}`,
		},
		"command": {
			config.Draft{Command: []string{"npx", "x"}, Env: []string{"TOKEN", "A=2"}, Cwd: "/srv"},
			`{"command":"npx","args":["x"],"cwd":"/srv","env":{"TOKEN":"${env:TOKEN}","A":"2"}}`,
		},
		"secret in a header": {
			config.Draft{URL: "https://a.example/mcp", Headers: []string{"X-Key:" + clearKey}},
			`the header "X-Key" looks like a secret in clear text`,
		},
		"secret beside a reference": {
			config.Draft{URL: "https://a.example/", Headers: []string{"X-Key:" + clearKey + "${env:A}"}},
			`the header "X-Key" looks like a secret in clear text`,
		},
		"secret in the URL": {
			config.Draft{URL: "https://a.example/mcp?api_key=0123456789abcdef0123"},
			"the URL looks like a secret in clear text",
		},
		"secret in a variable": {
			config.Draft{Command: []string{"sh"}, Env: []string{"API_KEY=hunter2hunter2"}},
			`the variable "API_KEY" looks like a secret in clear text`,
		},
		"secret in an argument": {
			config.Draft{Command: []string{"sh", "--token", clearKey}},
			"argument 2 of the command looks like a secret in clear text",
		},
		"header twice": {
			config.Draft{URL: "https://a.example/mcp", Headers: []string{"A:1", "A:2"}},
			`the header "A" is given twice`,
		},
		"both": {
			config.Draft{URL: "https://a.example/mcp", Command: []string{"sh"}},
			"a server has a URL or a command",
		},
	} {
		t.Run(name, func(t *testing.T) {
			entry, err := tt.draft.Entry()
			got := string(entry.Bytes())
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || strings.Contains(got, clearKey) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
