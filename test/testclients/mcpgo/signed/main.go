// Signed is a server by mark3labs/mcp-go that requires a token of an issuer. Its tool says whose
// token it is.
//
//	signed ADDRESS ISSUER
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "signed:", err)
		os.Exit(1)
	}
}

// A found is the issuer's data about a token.
type found struct {
	Active        bool
	Sub, Aud, Iss string
}

type foundKey struct{}

func run(addr, issuer string) error {
	self := "http://" + addr
	s := server.NewMCPServer("signed", "1.0.0")
	s.AddTool(mcp.NewTool(
		"whoami", mcp.WithDescription("Say whose token this is."),
		mcp.WithReadOnlyHintAnnotation(true),
	),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("you are " + ctx.Value(foundKey{}).(found).Sub), nil
		})
	h := server.NewStreamableHTTPServer(s, server.WithProtectedResourceMetadata(server.ProtectedResourceMetadataConfig{
		Resource: self + "/mcp", AuthorizationServers: []string{issuer}, ScopesSupported: []string{
			"read",
		},
	}))
	metadata := server.ProtectedResourceMetadataPath(self + "/mcp")
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == metadata {
			h.ServeHTTP(w, r)
			return
		}
		f, err := lookUp(r, issuer)
		if err != nil || !f.Active || f.Aud != self+"/mcp" {
			w.Header().Set(
				"WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s%s"`, self, metadata),
			)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), foundKey{}, f)))
	}))
}

// lookUp asks the issuer about the token of a request.
func lookUp(r *http.Request, issuer string) (f found, err error) {
	var token string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %s", &token); err != nil {
		return f, err
	}
	resp, err := http.PostForm(
		issuer+"/token/introspection", url.Values{"token": {token}, "client_id": {"servers"}},
	)
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }()
	return f, json.NewDecoder(resp.Body).Decode(&f)
}
