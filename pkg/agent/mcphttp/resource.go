package mcphttp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// metadataPath is the path of a protected resource's metadata in RFC 9728. The resource's own path
// follows it.
const metadataPath = "/.well-known/oauth-protected-resource"

// A Resource tells clients where to get a token for this server (RFC 9728).
type Resource struct {
	AuthorizationServers []string // issuer URLs
	Scopes               []string // all scopes that a token may have; nil: not published
	ScopePrefix          string   // prefix for the scopes of an [identity.Error] in a challenge
	Documentation        string   // URL of a page for developers; "": none
}

type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
	Documentation        string   `json:"resource_documentation,omitempty"`
}

// serveMetadata answers for the resource at path; "" means the whole host. Clients compare the
// resource in the answer with the address that they called, so each endpoint has its own. The
// metadata is public: pages of every site may read it.
func (h *handler) serveMetadata(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_, exists := endpoint(path)
	switch {
	case h.opts.Resource == nil || h.opts.BaseURL == "" || path != "" && !exists:
		_ = writeError(w, nil, refuse(http.StatusNotFound, "not found"), http.StatusNotFound)
		return
	case r.Method == http.MethodOptions:
		w.Header().Set("Access-Control-Allow-Methods", "GET")
		w.Header().Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET")
		_ = writeError(w, nil, refuse(http.StatusMethodNotAllowed, "method not allowed"), http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(resourceMetadata{
		Resource:             h.baseURL() + path,
		AuthorizationServers: h.opts.Resource.AuthorizationServers,
		Scopes:               h.opts.Resource.Scopes,
		BearerMethods:        []string{"header"},
		Name:                 h.opts.Name,
		Documentation:        h.opts.Resource.Documentation,
	})
	if err != nil { // strings cannot fail
		panic(err)
	}
	w.Header().Set("Cache-Control", "max-age=3600")
	_ = writeJSON(w, http.StatusOK, body)
}

func (h *handler) baseURL() string { return strings.TrimSuffix(h.opts.BaseURL, "/") }
