package console

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// viewedCookie is the name, after the prefix of its kind, of the cookie that names the definitions
// whose page this browser has shown. The cookie is no protection against its own user: a person who
// forges it could also approve each tool on its page. A server cannot make another definition with
// the same mark, which is 128 bits of the hash.
const viewedCookie = "-opened"

// maxViewed limits the definitions in the cookie, which keeps the newest.
const maxViewed = 150

// mark returns the part of a hash that the cookie contains.
func mark(hash tool.Hash) string {
	sum, ok := hash.Sum()
	if !ok {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// A viewed set has the marks of the definitions that a browser has shown.
type viewed map[string]bool

// shownAs returns [decide.ShownOpened] if the browser has shown the definition.
func (v viewed) shownAs(hash tool.Hash) decide.ViewMethod {
	if v[mark(hash)] {
		return decide.ShownOpened
	}
	return ""
}

// viewed returns the marks of the definitions that the browser has shown.
func (c *Console) viewed(r *http.Request) viewed {
	out := viewed{}
	for _, m := range c.viewedMarks(r) {
		out[m] = true
	}
	return out
}

func (c *Console) viewedMarks(r *http.Request) []string {
	cookie, err := r.Cookie(c.cookieKind(r).prefix + viewedCookie)
	if err != nil || cookie.Value == "" {
		return nil
	}
	marks := strings.Split(cookie.Value, ".")
	return marks[:min(len(marks), maxViewed)]
}

// setViewed adds a definition to the cookie.
func (c *Console) setViewed(w http.ResponseWriter, r *http.Request, hash tool.Hash) {
	m := mark(hash)
	marks := c.viewedMarks(r)
	if m == "" || r.Method != http.MethodGet || len(marks) > 0 && marks[0] == m {
		return
	}
	marks = slices.DeleteFunc(marks, func(x string) bool { return x == m })
	marks = append([]string{m}, marks[:min(len(marks), maxViewed-1)]...)
	c.cookieKind(r).set(w, viewedCookie, strings.Join(marks, "."), 0)
}
