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
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A brokenSyncer is a syncer that fails.
type brokenSyncer struct{ err error }

func (b brokenSyncer) Sync(context.Context) (catalog.Report, error) { return catalog.Report{}, b.err }

func (b brokenSyncer) SyncServers(ctx context.Context, _ []string) (catalog.Report, error) {
	return b.Sync(ctx)
}

// A sync of one server loads only that server, and the audit names it.
func TestSyncServer(t *testing.T) {
	f := newFixture(t)
	f.Serve("fs", `{"name":"read_file"}`, `{"name":"more"}`)
	f.Serve("mail", `{"name":"other"}`)
	got, err := f.service.SyncServer(f.ctx, "fs")
	if err != nil || got.New != 1 || got.Tools != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if lines := f.Deeds.Lines(); len(lines) != 1 || lines[0].Subject != "server:fs" ||
		lines[0].Action != audit.ActionSync {
		t.Errorf("the audit has %+v", lines)
	}
	for name, status := range map[string]int{
		"old": http.StatusConflict, "nope": http.StatusNotFound,
	} {
		_, err := f.service.SyncServer(f.ctx, name)
		if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != status {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
