package console

import (
	"net/http"
	"strings"
)

// polled has the values that a page with polls needs. The page reloads its state, and its other
// parts unless a person types there.
type polled struct {
	Renew   string // address of the page; "": no polls, because a reload would lose typed text
	Version string // of the content
}

// poll answers 204 to a poll that names the current version, and reports whether it did so.
// Otherwise it sets Version to the version of the shown values, and Renew to the address with the
// query that selects a view.
func (p *polled) poll(w http.ResponseWriter, r *http.Request, at string, shown ...any) (answered bool) {
	if r.Method != http.MethodGet || lateOf(r) != nil {
		return false
	}
	query := r.URL.Query()
	for _, done := range []string{"did", "left", "audit"} {
		query.Del(done)
	}
	p.Renew, p.Version = withQuery(at, query), versionOf(shown)
	if answered = strings.Contains(r.Header.Get("If-None-Match"), p.Version); answered {
		w.WriteHeader(http.StatusNoContent)
	}
	return answered
}
