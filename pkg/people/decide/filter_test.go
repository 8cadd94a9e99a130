package decide_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Every query selects a list or gets a readable refusal. A filter that is written and read again
// stays the same.
func FuzzReadQuery(f *testing.F) {
	desk := newQueue(f)
	page, err := desk.read("sort=risk&limit=1")
	require.OK(f, err)
	for _, query := range []string{
		"", "status=pending_approval&tier=read", "q=a+b&sort=newest", "finding=severe", "limit=1&after=" + page.Next.Next, "after=dG9vbHMgYnkgaWQAMQBhOmI",
		"a=b", "status=&status=", "limit=-1", "server=%00", "sort=risk&after=" + page.Next.Next + "x",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Skip()
		}
		filter, p, err := decide.ReadQuery(values, 50)
		if err == nil {
			again, _, err := decide.ReadQuery(filter.Values(), 50)
			if err != nil || again != filter {
				t.Errorf("%q is read as %+v, and written as %+v", query, filter, again)
			}
			_, err = desk.service.List(desk.ctx, filter, p)
			refusable(t, query, err)
			return
		}
		refusable(t, query, err)
	})
}

func refusable(t *testing.T, query string, err error) {
	t.Helper()
	if e, ok := errors.AsType[*decide.Error](err); err != nil && (!ok || e.Status != http.StatusUnprocessableEntity || e.Detail == "") {
		t.Errorf("%q: %v", query, err)
	}
}
