package mcphttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

// origins are the web origins whose pages may call the gateway, in the form that browsers send.
type origins map[string]bool

func newOrigins(allow []string, baseURL string) (origins, error) {
	o := origins{}
	if baseURL != "" {
		u, err := ParseBaseURL(baseURL)
		if err != nil {
			return nil, err
		}
		o[u.Scheme+"://"+u.Host] = true
	}
	for _, s := range allow {
		u, err := url.Parse(s)
		switch {
		case s == "*":
			o[s] = true
		case err != nil, u.Scheme == "", u.Host == "", u.Scheme+"://"+u.Host != s:
			return nil, fmt.Errorf("allowed origin %q is not scheme://host", s)
		default:
			o[strings.ToLower(s)] = true
		}
	}
	return o, nil
}

func (o origins) allow(origin string) bool {
	return o["*"] || o[strings.ToLower(origin)]
}

// checkOrigin refuses requests of other sites' pages, and sets the CORS headers for an allowed
// page. Browsers add Origin to each POST of a page.
func (h *handler) checkOrigin(w http.ResponseWriter, r *http.Request) *mcp.Error {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return nil
	}
	w.Header().Add("Vary", "Origin")
	if len(values) > 1 || !h.origins.allow(values[0]) {
		return refuse(http.StatusForbidden, "origin not allowed")
	}
	w.Header().Set("Access-Control-Allow-Origin", values[0])
	w.Header().Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
	if h.opts.Seal != nil {
		w.Header().Add("Access-Control-Expose-Headers", mcp.HeaderSession)
	}
	return nil
}

// requestHeaders are the headers that a page may always send. The answer to a
// preflight also allows each header with one of headerPrefixes that the preflight asks for.
var (
	requestHeaders = []string{
		"Authorization", "Content-Type", "Accept", "Prefer", "Traceparent", "Last-Event-ID",
		"MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name",
		"X-MCP-Toolsets", "X-MCP-Tools", "X-MCP-Enabled-Tools",
		"X-MCP-Exclude-Tools", "X-MCP-Disabled-Tools", "X-MCP-Readonly",
	}
	headerPrefixes = []string{"mcp-", "x-mcp-"}
)

// preflight answers OPTIONS.
func (h *handler) preflight(w http.ResponseWriter, r *http.Request) {
	allow := requestHeaders
	for _, line := range r.Header.Values("Access-Control-Request-Headers") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); prefixed(name) && !contains(allow, name) {
				allow = append(allow[:len(allow):len(allow)], name)
			}
		}
	}
	methods := h.allowed() + ", OPTIONS"
	w.Header().Set("Allow", methods)
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		w.Header().Set("Access-Control-Allow-Methods", methods)
		w.Header().Set("Access-Control-Allow-Headers", strings.Join(allow, ", "))
		w.Header().Set("Access-Control-Max-Age", "7200")
		w.Header().Add("Vary", "Access-Control-Request-Headers")
	}
	w.WriteHeader(http.StatusNoContent)
}

// prefixed reports whether name is a valid header name with a prefix of headerPrefixes. The answer
// to the browser never repeats an invalid name.
func prefixed(name string) bool {
	for _, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && c != '-' && c != '_' {
			return false
		}
	}
	for _, p := range headerPrefixes {
		if len(name) > len(p) && strings.EqualFold(name[:len(p)], p) {
			return true
		}
	}
	return false
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
