package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Values are named values for a server: HTTP headers, by canonical name, or variables of a
// program's environment. The values may be secret.
type Values map[string]secret.Text

// Plain returns the values in plain text, with references such as ${env:NAME} not yet replaced;
// nil if there are none.
func (v Values) Plain() map[string]string {
	if len(v) == 0 {
		return nil
	}
	plain := make(map[string]string, len(v))
	for name, value := range v {
		plain[name] = value.Reveal()
	}
	return plain
}

// A Variable is a variable of the gateway's environment that a config refers to: ${env:NAME}.
type Variable struct {
	Name string
	Path string // JSON path of the value that refers to it
}

// variables returns the variables that the values refer to, each with the first value that refers
// to it, in the order of their names.
func (v Values) variables(path string) []Variable {
	var out []Variable
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		_, _ = secret.Expand(v[key].Reveal(), func(ref string) (string, error) {
			if name, ok := strings.CutPrefix(ref, "env:"); ok && !seen[name] {
				seen[name] = true
				out = append(out, Variable{name, JoinPath(path, key)})
			}
			return "", nil
		})
	}
	return out
}

// headers checks a server's headers. No message repeats a value.
func (c *checker) headers(n *rawjson.Node, path string) Values {
	if n == nil || len(n.Keys) == 0 {
		return nil
	}
	out := Values{}
	for name, value := range n.All() {
		at, path := &rawjson.Node{Offset: value.NameOffset}, JoinPath(path, name)
		name := http.CanonicalHeaderKey(name)
		_, again := out[name]
		switch {
		case c.bad[value]:
		case !tool.IsHeaderName(name):
			c.fault(at, path, "is not the name of a header")
		case ownHeader(name):
			c.fault(at, path, "the gateway sets this header itself")
		case again:
			c.fault(at, path,
				"is the same header as one above: names of headers must differ in more than case")
		default:
			c.headerValue(value, path, name)
		}
		out[name] = secret.New(value.Text)
	}
	return out
}

// headerValue checks the value of a header.
func (c *checker) headerValue(n *rawjson.Node, path, name string) {
	if strings.ContainsFunc(n.Text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		c.fault(n, path, "holds a control character")
		return
	}
	c.value(n, path, name)
}

// inClear is the warning about a credential that every reader of the file can see.
const inClear = "seems to be a credential written in clear; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}"

// value checks the ${…} references in a named value, and warns about a credential in clear.
func (c *checker) value(n *rawjson.Node, path, name string) {
	if found, ok := c.references(n, path); ok && !found && secret.Looks(name, n.Text) {
		c.warn(n, path, inClear)
	}
}

// references checks the ${…} references in a value, and reports whether there are any. ok is false
// if one is wrong.
func (c *checker) references(n *rawjson.Node, path string) (found, ok bool) {
	_, err := secret.Expand(n.Text, func(ref string) (string, error) {
		found = true
		return "", secret.Check(ref)
	})
	if err != nil {
		c.fault(n, path, "%s", err)
	}
	return found, err == nil
}

// ownHeader reports whether the upstream client sets the header.
func ownHeader(canonical string) bool {
	switch canonical {
	case "Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Traceparent", "Tracestate", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-")
}
