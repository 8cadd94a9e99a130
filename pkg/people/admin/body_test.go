package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// Every operation reads the body, up to a limit, before it answers. This is true even for
// operations that need no body.
func TestBodyIsRead(t *testing.T) {
	h := newFixture(t)
	for _, path := range []string{"/admin/sync", "/admin/approvals/restore", "/admin/approvals/accept", "/admin/nowhere"} {
		for size, rest := range map[int]bool{2: false, 4 << 20: true} {
			body := strings.NewReader(strings.Repeat(" ", size))
			r := httptest.NewRequest(http.MethodPost, path, body)
			r.Header.Set("Content-Type", "application/json")
			ctx := decide.WithActor(t.Context(), decide.Actor{Name: "kim", Rights: identity.Everything()})
			w := &firstByte{ResponseRecorder: httptest.NewRecorder(), body: body}
			h.Console.API.ServeHTTP(w, r.WithContext(ctx))
			if w.Code == 0 || (w.left > 0) != rest {
				t.Errorf("%s: %d bytes of %d were unread when the answer %d began", path, w.left, size, w.Code)
			}
		}
	}
}

// A firstByte records how much of the body was unread when the answer began.
type firstByte struct {
	*httptest.ResponseRecorder
	body  *strings.Reader
	left  int
	began bool
}

func (w *firstByte) WriteHeader(status int) {
	if !w.began {
		w.began, w.left = true, w.body.Len()
	}
	w.ResponseRecorder.WriteHeader(status)
}
