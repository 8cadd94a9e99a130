package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
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
		rest := h[header].Reveal()
		for {
			_, after, ok := strings.Cut(rest, "${env:")
			if !ok {
				break
			}
			var name string
			name, rest, _ = strings.Cut(after, "}")
			if !seen[name] {
				seen[name] = true
				out = append(out, Variable{name, header})
			}
		}
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
		case !validHeaderName(m.name):
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
	for rest := n.text; ; found = true {
		_, after, ok := strings.Cut(rest, "${")
		if !ok {
			break
		}
		ref, tail, closed := strings.Cut(after, "}")
		if !closed {
			c.fault(n, path, "holds ${ without its }")
			return
		}
		if problem := badReference(ref); problem != "" {
			c.fault(n, path, "%s", problem)
			return
		}
		rest = tail
	}
	if !found && looksSecret(name) {
		c.warn(n, path, "seems to be a credential written in clear; write ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}")
	}
}

// badReference says what is wrong with the inside of ${…}; "" if nothing is.
func badReference(ref string) string {
	kind, name, ok := strings.Cut(ref, ":")
	word := func(more string) bool {
		return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
		})
	}
	switch {
	case !ok:
		return "holds a ${…} without its kind; write ${env:NAME}, ${ssm:/name} or ${secretsmanager:name}"
	case kind == "env" && (!word("_") || name[0] >= '0' && name[0] <= '9'):
		return "holds ${env:…} without the name of a variable"
	case kind == "ssm" && !word("_.-/:"), kind == "secretsmanager" && !word("_.-/+=@:"):
		return "holds ${" + kind + ":…} without the name of a secret"
	case kind != "env" && kind != "ssm" && kind != "secretsmanager":
		return "holds a ${…} of an unknown kind; there are env, ssm and secretsmanager"
	}
	return ""
}

// validHeaderName reports whether name is an HTTP token.
func validHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
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
