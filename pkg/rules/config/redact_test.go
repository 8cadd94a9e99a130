package config

import "testing"

// A redacted file keeps its lines, its settings and its references. No value that may be a secret
// remains, even in a file with faults.
func TestRedact(t *testing.T) {
	const file = `{"mcpServers": {
  "web": {"url": "https://web.example.com/mcp?key=s3cret", "headers": {
    "A": "Bearer ${env:TOKEN}", "B": "s3cret", "C": "${ssm:/a}s3cret", "D": ["s3cret", 53]},
    "auth": {"client_id": "gate", "client_secret": "s3cret", "scopes": ["mail"]},
    "disabled_tools": ["rm_*"], "timeuot": "s3cret"},
  "plain": {"url": "https://plain.example.com"},
  "odd": {"url": ["s3cret"], "args": "s3cret"},
  "ps": {"command": "npx", "args": ["-y", "x", "--token=s3cret", 5], 
    "env": {"K": "s3cret"}},
  "ps": "s3cret"},
 "notify": [{"type": "slack", "url": "https://hooks.example.com/s3cret"},
  {"type": "webhook", "url": "${env:HOOK}", "secret": "whsec_s3cret", "events": ["new"]}, "s3cret"],
 "tools": {"disabled": ["web:x"], "api_key": ["s3cret"]},
 "gateway": {"a": {"password": "s3cret", "token": "${env:T}"}, "b": "https://u:s3cret@a.example"},
 "tolos": {"a": {"b": "s3cret"}, "c": true}
}`
	const want = `{"mcpServers": {
  "web": {"url": "https://web.example.com/[secret]", "headers": {
    "A": "Bearer ${env:TOKEN}", "B": "[secret]", "C": "[secret]", "D": ["[secret]", "[secret]"]},
    "auth": {"client_id": "gate", "client_secret": "[secret]", "scopes": ["mail"]},
    "disabled_tools": ["rm_*"], "timeuot": "[secret]"},
  "plain": {"url": "https://plain.example.com"},
  "odd": {"url": ["[secret]"], "args": "[secret]"},
  "ps": {"command": "npx", "args": ["-y", "x", "--token=[secret]", "[secret]"], 
    "env": {"K": "[secret]"}},
  "ps": "[secret]"},
 "notify": [{"type": "slack", "url": "[secret]"},
  {"type": "webhook", "url": "${env:HOOK}", "secret": "[secret]", "events": ["new"]}, "[secret]"],
 "tools": {"disabled": ["web:x"], "api_key": ["[secret]"]},
 "gateway": {"a": {"password": "[secret]", "token": "${env:T}"}, "b": "[secret]"},
 "tolos": {"a": {"b": "[secret]"}, "c": "[secret]"}
}`
	if got := string(Redact([]byte(file))); got != want {
		t.Errorf("got %s", got)
	}
	for _, broken := range []string{"", `{"a": "s3cret"`, `["s3cret"]`, `"s3cret"`, `{} s3cret`} {
		if got := Redact([]byte(broken)); got != nil {
			t.Errorf("%s: %s", broken, got)
		}
	}
}
