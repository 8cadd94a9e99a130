package boot

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A process that syncs and answers requests has only one copy of the catalog in memory. It does not
// read a snapshot that it has made.
func TestSyncSharesItsCatalog(t *testing.T) {
	var reads atomic.Int32
	objects := &objecttest.Mem{OnGet: func(_ context.Context, key string) error {
		if strings.HasSuffix(key, ".snap") {
			reads.Add(1)
		}
		return nil
	}}
	configure := func(text string) {
		if _, err := objects.Put(t.Context(), config.Key, []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	configure(`{"mcpServers": {}}`)
	approvals := &approvaltest.Mem{}
	start := func() *Program { return New(Settings{}, Stores{Objects: objects, Approvals: approvals}, Options{}) }
	sync := func(p *Program) {
		t.Helper()
		if _, err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		mine, theirs := p.Syncer.Catalog().Encode(), p.States.Load(t.Context()).Catalog.Encode()
		if &mine[0] != &theirs[0] {
			t.Error("the process has two copies of the catalog")
		}
	}
	p := start()
	sync(p)
	sync(p)
	configure(`{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp", "enabled": false}}}`)
	sync(p)
	if n := reads.Load(); n != 0 {
		t.Errorf("the process read %d snapshots that it had made, want 0", n)
	}
	p = start()
	p.States.Load(t.Context()) // as after a start, if a request arrives before the first sync
	sync(p)
	sync(p)
	if n := reads.Load(); n != 2 {
		t.Errorf("a new process read %d snapshots, want 2: one for requests and one to sync", n)
	}
}
