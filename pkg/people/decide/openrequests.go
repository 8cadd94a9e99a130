package decide

import (
	"context"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// openRequestsAge is the maximum age of the open requests in [openRequests].
const openRequestsAge = 10 * time.Second

// openRequests caches the open requests of agents for openRequestsAge, because every page shows
// their number and every queue begins with their items.
type openRequests struct {
	mu   sync.Mutex
	at   time.Time // when the list was read; zero: it has to be read
	list []Request
}

// OpenRequests returns the open requests of agents. They are up to 10 seconds old. If they cannot
// be read, the log says so, and the list is empty.
func (d *Service) OpenRequests(ctx context.Context) []Request {
	if !d.TakesRequests() {
		return nil
	}
	d.open.mu.Lock()
	list, at := d.open.list, d.open.at
	d.open.mu.Unlock()
	if !at.IsZero() && d.o.Now().Sub(at) < openRequestsAge {
		return list
	}
	list, _, err := d.Requests(ctx, true)
	if err != nil {
		_ = d.Explain(ctx, "requests", err) // Explain logs the error
		d.storeOpen(nil, d.o.Now())
	}
	return list
}

// storeOpen replaces the cached requests. With the zero time, the next request reads them again.
func (d *Service) storeOpen(list []Request, at time.Time) {
	d.open.mu.Lock()
	defer d.open.mu.Unlock()
	d.open.list, d.open.at = list, at
}

// askers returns how many agents have an open request for each item. Requests for one call do not
// count: no decision about the definition answers them.
func (d *Service) askers(ctx context.Context) map[tool.ID]int {
	out := map[tool.ID]int{}
	type asker struct {
		item  tool.ID
		agent string
	}
	seen := map[asker]bool{}
	for _, r := range d.OpenRequests(ctx) {
		if a := (asker{r.Item(), r.Agent.Key()}); !r.OneCall() && !seen[a] {
			seen[a] = true
			out[a.item]++
		}
	}
	return out
}
