package identity

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The gateway's paths that audiences can name.
const (
	mcpPath   = "/mcp"
	adminPath = "/admin"
)

// An audience is an accepted audience of tokens, and the paths on which it counts.
type audience struct {
	name string
	path string // it counts on this path and below; "": on every path
}

// readAudience returns an audience with the path on which it counts. A URL of this gateway counts
// on its own path and below, because a client requests a token only for the address that it uses.
// The address of the host, or of the whole MCP endpoint, means the whole gateway including /admin.
// A name that is no address of this gateway, which some issuers use, also means the whole gateway.
func readAudience(name, baseURL string) (audience, error) {
	a := audience{name: name}
	u, err := url.Parse(name)
	base, errBase := url.Parse(baseURL)
	if err != nil || errBase != nil || !sameHost(u, base) {
		return a, nil //nolint:nilerr // some issuers use names that are no URLs
	}
	root, path := strings.TrimRight(base.Path, "/"), strings.TrimRight(u.Path, "/")
	isHere := below(path, root)
	switch path = strings.TrimPrefix(path, root); {
	case isHere && (path == "" || path == mcpPath):
	case isHere && (below(path, mcpPath) || below(path, adminPath)):
		a.path = path
	default:
		return a, fmt.Errorf("audience %q is an address of this gateway, but the gateway serves nothing there: want %s%s, a path below it, or a name that is no address of the gateway", name, baseURL, mcpPath)
	}
	return a, nil
}

// covers reports whether the audience counts on a request's path.
func (a audience) covers(path string) bool { return a.path == "" || below(path, a.path) }

// below reports whether path is parent or is below it.
func below(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '/')
}

// sameHost reports whether two web addresses name the same host and port. http and https count as
// equal, because an operator who wrote the wrong scheme meant the same host.
func sameHost(a, b *url.URL) bool {
	host := func(u *url.URL) string {
		name, port := strings.ToLower(u.Hostname()), u.Port()
		switch {
		case u.Scheme != "http" && u.Scheme != "https":
			return ""
		case port == "", u.Scheme == "http" && port == "80", u.Scheme == "https" && port == "443":
			return name
		}
		return name + ":" + port
	}
	return host(a) != "" && host(a) == host(b)
}

// admits reports whether a token for these audiences counts on a path.
func admits(taken []audience, audiences []string, path string) bool {
	return slices.ContainsFunc(taken, func(a audience) bool { return slices.Contains(audiences, a.name) && a.covers(path) })
}
