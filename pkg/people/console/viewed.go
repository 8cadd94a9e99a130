package console

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// viewedCookie is the name, after the prefix of its kind, of the cookie that names the definitions
// that this browser has shown. The cookie is no protection against its own user: a person who
// forges it could also approve each tool on its page. A server cannot make another definition with
// the same mark, which is 128 bits of a hash.
const viewedCookie = "-opened"

// maxViewed limits the definitions in the cookie, which keeps the newest.
const maxViewed = 150

// mark returns what the cookie contains for a definition that a person has opened. It depends on
// the person: in a browser that several people use, each has their own marks.
func mark(r *http.Request, hash tool.Hash) string {
	sum, ok := hash.Sum()
	if !ok {
		return ""
	}
	who := callerOf(r.Context())
	own := sha256.Sum256(append(sum[:], who.Subject+"\x00"+who.Name...))
	return base64.RawURLEncoding.EncodeToString(own[:16])
}

// A viewed set has the marks of the definitions that a person has opened in this browser.
type viewed struct {
	r     *http.Request
	marks []string
}

// shownAs returns [decide.ShownOpened] if the person has opened the definition.
func (v viewed) shownAs(hash tool.Hash) decide.ViewMethod {
	if m := mark(v.r, hash); m != "" && slices.Contains(v.marks, m) {
		return decide.ShownOpened
	}
	return ""
}

// viewed returns the marks of the request.
func (c *Console) viewed(r *http.Request) viewed { return viewed{r, c.viewedMarks(r)} }

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
	m := mark(r, hash)
	marks := c.viewedMarks(r)
	if m == "" || r.Method != http.MethodGet || len(marks) > 0 && marks[0] == m {
		return
	}
	marks = slices.DeleteFunc(marks, func(x string) bool { return x == m })
	marks = append([]string{m}, marks[:min(len(marks), maxViewed-1)]...)
	c.cookieKind(r).set(w, viewedCookie, strings.Join(marks, "."), 0)
}
