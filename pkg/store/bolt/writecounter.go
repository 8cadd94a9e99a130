package bolt

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// A writeCounter shows whether records of a server were written since they were read. Only this
// process writes to the file, so a count in memory is enough, and no page is read.
type writeCounter struct {
	mu     sync.Mutex
	opened string         // unique to this Store
	all    int            // writes to records of any server
	of     map[string]int // by server
}

// etag returns a text that changes with each write to the server's records.
func (w *writeCounter) etag(server string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened == "" {
		w.opened = rand.Text()
	}
	return w.opened + " " + strconv.Itoa(w.all) + " " + strconv.Itoa(w.of[server]) + " " + server
}

// note counts a write that has ended. It also counts a failed write.
func (w *writeCounter) note(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]int{}
	}
	w.of[server]++
}

func (w *writeCounter) noteAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all++
}

// RecordsIfChanged implements [approval.Store].
func (s *Store) RecordsIfChanged(ctx context.Context, server, mark string) (_ []approval.Record, now string, err error) {
	if now = s.wrote.etag(server); now == mark { // before the records are read, so a later write changes it
		if err = s.usable(ctx); err != nil {
			store.Wrap(&err, "approvals of %q", server)
			return nil, "", err
		}
		return nil, "", approval.ErrUnchanged // unwrapped: it is common and no fault
	}
	all, err := s.Records(ctx, server)
	if err != nil {
		return nil, "", err
	}
	return all, now, nil
}
