package console

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// viewedCookie, behind the prefix of its kind, names which definitions a browser has shown on a
// page of their own. It is a reminder for the person and not a lock: who forges it fools himself,
// and each tool of a bulk page could be approved on its page. A server can make no other definition
// of the same mark: it is 128 bits of the hash.
const viewedCookie = "-opened"

// maxViewed is how many definitions are remembered, the newest ones.
const maxViewed = 150

// mark returns what of a hash is remembered.
func mark(hash tool.Hash) string {
	sum, ok := hash.Sum()
	if !ok {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// A viewed set is the marks of the definitions that a browser has shown.
type viewed map[string]bool

// shown says how the person who sends the request was shown a definition.
func (v viewed) shown(hash tool.Hash) decide.Shown {
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

// setViewed remembers that the browser shows a definition.
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
