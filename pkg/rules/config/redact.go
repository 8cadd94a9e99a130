package config

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// shownKeys are the keys whose values people may see, for each part of the file. A value of any
// other key may be a secret: the key may be new, or misspelled.
var shownKeys = map[string][]string{
	"": {"$schema", "toolsets", "tools", "review", "gateway", "audit", "stop", "words"},
	"mcpServers": {
		"type", "transport", "transportType", "command", "cwd", "enabled", "disabled",
		"enabled_tools", "disabled_tools", "approval", "resources", "disabled_prompts",
		"disabled_resources", "unlisted_resources", "timeout", "required", "behind_proxy",
		"session", "protocol", "elicitation", "annotations",
	},
	"notify": {"type", "topic", "events", "servers"},
	"auth":   {"type", "as", "grant", "client_id", "client_auth", "issuer", "scopes", "register"},
}

// Redact returns a config file for people, with [secret] instead of each value that may be a secret.
// References such as ${env:NAME} stay, and each value stays on its line. Redact returns nil if the
// file is not JSON.
func Redact(data []byte) []byte {
	root, broken := readTree(data)
	if broken != nil || !root.Object() {
		return nil
	}
	r := redactor{data: data}
	for name, n := range root.All() {
		switch {
		case name == "mcpServers" && n.Object():
			for _, server := range n.Kids {
				r.server(server)
			}
		case name == "notify" && n.Array():
			for _, target := range n.Kids {
				r.members(target, "notify", nil)
			}
		case !slices.Contains(shownKeys[""], name):
			r.hide(n)
		default:
			r.credentials(name, n)
		}
	}
	r.out.Write(data[r.done:])
	return r.out.Bytes()
}

// A redactor copies a file. It visits the values in the order of the file.
type redactor struct {
	data []byte
	done int // bytes of data that out has, or has replaced
	out  bytes.Buffer
}

// replace writes a text instead of the value n.
func (r *redactor) replace(n *rawjson.Node, text string) {
	r.out.Write(r.data[r.done:n.Offset])
	r.out.Write(rawjson.Quote(text))
	r.done = n.Offset + len(n.Raw)
}

// server copies an entry of mcpServers.
func (r *redactor) server(n *rawjson.Node) {
	r.members(n, "mcpServers", map[string]func(*rawjson.Node){
		"url": r.url, "args": r.args,
		"auth": func(n *rawjson.Node) { r.members(n, "auth", nil) },
	})
}

// members copies the members of an object, with the given functions for some of the keys. It hides
// the values of all keys that people may not see.
func (r *redactor) members(n *rawjson.Node, part string, of map[string]func(*rawjson.Node)) {
	if !n.Object() {
		r.hide(n)
		return
	}
	for name, kid := range n.All() {
		switch do := of[name]; {
		case do != nil:
			do(kid)
		case !slices.Contains(shownKeys[part], name):
			r.hide(kid)
		default:
			r.credentials(name, kid)
		}
	}
}

// hide hides all values in n, except references.
func (r *redactor) hide(n *rawjson.Node) {
	for _, kid := range n.Kids {
		r.hide(kid)
	}
	if len(n.Kids) == 0 && !isEmpty(n) && !onlyReferences(n.Text) {
		r.replace(n, hidden)
	}
}

// credentials hides the values in n that are credentials by their name or form. People may see the
// other values, but somebody may have put a secret beside them.
func (r *redactor) credentials(name string, n *rawjson.Node) {
	for key, kid := range n.All() {
		r.credentials(key, kid)
	}
	if n.Array() {
		for _, kid := range n.Kids {
			r.credentials(name, kid)
		}
	}
	if n.Kind == '"' && secret.IsCredential(name, n.Text) && !onlyReferences(n.Text) {
		r.replace(n, hidden)
	}
}

// url hides the path and the query of a server's URL.
func (r *redactor) url(n *rawjson.Node) {
	u, err := url.Parse(n.Text)
	switch {
	case n.Kind != '"' || err != nil || u.Host == "":
		r.hide(n)
	case n.Text != u.Scheme+"://"+u.Host:
		r.replace(n, u.Scheme+"://"+u.Host+"/"+hidden)
	}
}

// args hides the arguments of a program that may be credentials.
func (r *redactor) args(n *rawjson.Node) {
	var args []string
	for _, kid := range n.Kids {
		args = append(args, kid.Text)
	}
	for i, shown := range (&Command{Args: args}).shownArgs() {
		if kid := n.Kids[i]; kid.Kind != '"' {
			r.hide(kid)
		} else if shown != kid.Text {
			r.replace(kid, shown)
		}
	}
	if !n.Array() {
		r.hide(n)
	}
}

// onlyReferences reports whether a text consists of references such as ${env:NAME}, after a word
// such as Bearer.
func onlyReferences(s string) bool {
	found := false
	rest, err := secret.Expand(s[secret.SchemeLen(s):], func(ref string) (string, error) {
		found = true
		return "", secret.Check(ref)
	})
	return found && err == nil && strings.TrimSpace(rest) == ""
}
