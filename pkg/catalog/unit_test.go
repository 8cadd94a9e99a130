package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// A reordered loader reports the outcomes of servers in its own order.
type reordered struct {
	*gatewaytest.Servers
	order    func([]outcome.Outcome)
	outcomes atomic.Int64 // number of outcomes that the function each has processed
}

func (l *reordered) LoadEach(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) {
	var all []outcome.Outcome
	l.Servers.LoadEach(ctx, targets, func(o outcome.Outcome) { all = append(all, o) })
	l.order(all)
	for _, o := range all {
		each(o)
		l.outcomes.Add(1)
	}
}

// If two names have one URL, only the list of the first name in the config is approved
// automatically as the first list. This is so in any order of answers.
func TestUnitsWhateverAnswersFirst(t *testing.T) {
	for name, order := range map[string]func([]outcome.Outcome){
		"in order": func([]outcome.Outcome) {},
		"reversed": slices.Reverse[[]outcome.Outcome],
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.place(map[string]string{"a": here, "b": here, "c": "https://c.example/mcp"})
			w.serve(map[string][]string{"a": {"x"}, "b": {"x", "y"}, "c": {"z"}})
			w.Syncer = catalog.NewSyncer(w.Objects, w.Approvals, &reordered{Servers: w.Servers, order: order}, &catalog.SyncOptions{Now: w.Clock.Now})
			w.sync()
			wantState(t, w, "a:x: approved", "b:x: pending", "b:y: pending", "c:z: approved")
		})
	}
}

// While the records of servers cannot be read, the number of collected answers is bounded.
func TestUnworkedAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		w := newFixture(t)
		for i := range n {
			w.Serve(fmt.Sprintf("s%03d", i), "x")
		}
		w.Configure(nil)
		release := make(chan struct{})
		loader := &reordered{Servers: w.Servers, order: func([]outcome.Outcome) {}}
		w.Syncer = catalog.NewSyncer(w.Objects, slowRecords{w.Approvals, release}, loader, &catalog.SyncOptions{Now: w.Clock.Now})
		ended := make(chan catalog.Report)
		go func() { ended <- w.sync() }()
		synctest.Wait()
		if got := loader.outcomes.Load(); got > 40 {
			t.Errorf("the sync collected %d answers while it could process none", got)
		}
		close(release)
		if rep := <-ended; rep.New != n || loader.outcomes.Load() != n {
			t.Errorf("%d tools are new, %d answers collected", rep.New, loader.outcomes.Load())
		}
	})
}

// slowRecords is a store whose records cannot be read before a channel is closed.
type slowRecords struct {
	*approvaltest.Mem
	release chan struct{}
}

func (s slowRecords) RecordsIfChanged(ctx context.Context, server, mark string) ([]approval.Record, string, error) {
	<-s.release
	return s.Mem.RecordsIfChanged(ctx, server, mark)
}
