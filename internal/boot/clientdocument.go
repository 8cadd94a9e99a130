package boot

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// clientDocument returns the handler of the client ID metadata document, or nil if the gateway has
// no such document, because it cannot sign in to servers, or because issuers cannot read an address
// under base. The document has no secret, and is the same for everybody.
func (p *Program) clientDocument(base string) http.Handler {
	id := connection.ClientID(base)
	if p.SignIns == nil || id == "" {
		return nil
	}
	doc := oauth.Document([]string{
		p.Settings.AdminURL + connection.CallbackPath,
		// callbacks of the command line; an issuer accepts any port
		"http://127.0.0.1/callback", "http://localhost/callback",
	}, "none")
	maps.Copy(doc, map[string]any{
		"client_id": id, "client_uri": base,
		"application_type": "native", // a web client must not have a callback on the person's machine
	})
	body, err := json.Marshal(doc)
	if err != nil {
		return nil // cannot happen: the document contains only text
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "max-age=300")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body) // this fails only if the caller has gone
	})
}
