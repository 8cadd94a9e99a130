package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Headers are the HTTP headers that go to a server, by canonical name.
type Headers map[string]secret.Text

// Plain returns the headers with their values in clear, references such as
// ${env:NAME} not yet replaced; nil if there are none.
func (h Headers) Plain() map[string]string {
	if len(h) == 0 {
		return nil
	}
	plain := make(map[string]string, len(h))
	for name, value := range h {
		plain[name] = value.Reveal()
	}
	return plain
}

// Variables returns the variables of the environment that the headers name, each with the
// first header that does, in the order of the headers' names.
func (h Headers) Variables() []Variable {
	var out []Variable
	seen := map[string]bool{}
	for _, header := range slices.Sorted(maps.Keys(h)) {
		_, _ = secret.Expand(h[header].Reveal(), func(ref string) (string, error) {
			if name, ok := strings.CutPrefix(ref, "env:"); ok && !seen[name] {
				seen[name] = true
				out = append(out, Variable{name, header})
			}
			return "", nil
		})
	}
	return out
}

// A Variable is one of the environment that a header names: ${env:NAME}.
type Variable struct{ Name, Header string }

// headers checks a server's headers. No message repeats a value.
func (c *checker) headers(n *node, path string) Headers {
	if n == nil || len(n.members) == 0 {
		return nil
	}
	out := Headers{}
	for _, m := range n.members {
		at, path := &node{offset: m.offset}, JoinPath(path, m.name)
		name := http.CanonicalHeaderKey(m.name)
		_, again := out[name]
		switch {
		case m.value.bad:
		case !tool.IsHeaderName(m.name):
			c.fault(at, path, "is not the name of a header")
		case ownHeader(name):
			c.fault(at, path, "the gateway sets this header itself")
		case again:
			c.fault(at, path, "is the same header as one above; names of headers fold case")
		default:
			c.headerValue(m.value, path, name)
		}
		out[name] = secret.New(m.value.text)
	}
	return out
}

// headerValue checks what is sent, and the ${…} references in it.
func (c *checker) headerValue(n *node, path, name string) {
	if strings.ContainsFunc(n.text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		c.fault(n, path, "holds a control character")
		return
	}
	found := false
	_, err := secret.Expand(n.text, func(ref string) (string, error) {
		found = true
		return "", secret.Check(ref)
	})
	if err != nil {
		c.fault(n, path, "%s", err)
		return
	}
	if !found && looksSecret(name) {
		c.warn(n, path, "seems to be a credential written in clear; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}")
	}
}

// ownHeader reports whether the upstream client writes the header itself.
func ownHeader(canonical string) bool {
	switch canonical {
	case "Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Traceparent", "Tracestate", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-")
}

// looksSecret reports whether a header or query parameter of that name usually
// carries a credential.
func looksSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "key", "token", "secret", "password", "cookie", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
