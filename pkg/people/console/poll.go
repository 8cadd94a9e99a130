package console

import (
	"net/http"
	"strings"
)

// polled is what a page shows again while it is open: its state, and the rest unless a person types there.
type polled struct {
	Renew   string // address of the page; "": it holds what was typed, which a poll would not bring back
	Version string // of what the page shows
}

// poll answers a poll that names the version that it has with 204, and reports whether it did. Otherwise the
// page that shows these values can be polled at the address, with the query that chooses a view of it.
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
