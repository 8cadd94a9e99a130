package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
)

// needs returns the role that a request takes. Who reads needs the least; of what changes something
// each address is named, and one that is not takes the most.
func needs(method, path string) identity.Role {
	path = strings.TrimSuffix(path, "/")
	switch {
	case path == "/admin/tokens" || strings.HasPrefix(path, "/admin/tokens/"):
		return identity.Operator // who reads it knows which agents there are
	case isSafe(method), path == "/admin/me" || strings.HasPrefix(path, "/admin/me/"):
		return identity.Viewer
	}
	for _, about := range []string{"/admin/tools", "/admin/prompts", "/admin/resources"} {
		if path == about || strings.HasPrefix(path, about+"/") {
			return identity.Approver
		}
	}
	return identity.Operator
}

// permits reports whether the caller has the role that r takes, and answers if not.
func (c *Console) permits(w http.ResponseWriter, r *http.Request, who caller) bool {
	need := needs(r.Method, r.URL.Path)
	if who.Rights.Role >= need {
		return true
	}
	c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request without the role refused",
		slog.String("path", r.URL.Path), slog.String("actor", who.Name), slog.String("role", who.Rights.Role.String()), slog.String("needs", need.String()))
	c.deny(w, r, http.StatusForbidden, fmt.Sprintf("you are %s here as %q, and this takes the role %s; nothing was done. An operator gives roles",
		withArticle(who.Rights.Role), who.Name, need))
	return false
}

// withArticle returns a role as it stands in a sentence.
func withArticle(r identity.Role) string {
	if r == identity.Viewer {
		return "a viewer"
	}
	return "an " + r.String()
}
