package decide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A brokenSyncer is a syncer that fails.
type brokenSyncer struct{ err error }

func (b brokenSyncer) Sync(context.Context) (catalog.Report, error) { return catalog.Report{}, b.err }

// The answer to a failed sync says why it failed, without secrets, and which config is in use.
func TestSyncFails(t *testing.T) {
	for want, c := range map[string]struct {
		err    error
		status int
	}{
		"no space left on the disk; the old catalog stays: free some": {fmt.Errorf("put: %w", syscall.ENOSPC), http.StatusServiceUnavailable},
		"ran out of time; the old catalog stays":                      {fmt.Errorf("sync: %w", context.DeadlineExceeded), http.StatusServiceUnavailable},
		"a newer version of the program":                              {fmt.Errorf("sync: %w", catalog.ErrNewer), http.StatusServiceUnavailable},
	} {
		f := newFixture(t)
		service := decide.New(f.States, f.Approvals, decide.Options{Now: f.Clock.Now, Syncer: brokenSyncer{c.err}})
		_, err := service.Sync(f.ctx)
		if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != c.status || !strings.Contains(e.Detail, want) {
			t.Errorf("the answer to %v is %v", c.err, err)
		}
	}
}
