package usagetest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// Asker is a [usage.Source] that knows only totals and finds tools and agents on request. Each
// query runs until its answer was read once.
type Asker struct {
	Now    func() time.Time
	Report func(r usage.Range) (usage.Report, error) // nil: nothing happened
	Uses   *usage.Uses                               // the tools and agents that an answer contains
	Refuse error                                     // why queries are refused; nil: they are not
	Failed string                                    // why queries fail; "": they succeed

	mu     sync.Mutex
	asked  []usage.Answer
	looked map[int]int
}

var (
	_ usage.Source = (*Asker)(nil)
	_ usage.Asker  = (*Asker)(nil)
)

// Usage implements [usage.Source].
func (a *Asker) Usage(_ context.Context, r usage.Range) (usage.Report, error) {
	if a.Report != nil {
		return a.Report(r)
	}
	return usage.NewReport(r, a.Now()), nil
}

// Count returns how many queries were started.
func (a *Asker) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// Ask implements [usage.Asker].
func (a *Asker) Ask(_ context.Context, r usage.Range) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Refuse != nil {
		return "", a.Refuse
	}
	a.asked = append(a.asked, usage.Answer{Range: r.Name, AskedAt: a.Now(), Running: true})
	return "q" + strconv.Itoa(len(a.asked)-1), nil
}

// Answer implements [usage.Asker].
func (a *Asker) Answer(_ context.Context, query string) (usage.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := strconv.Atoi(query[min(1, len(query)):])
	if err != nil || n >= len(a.asked) {
		return usage.Answer{}, usage.ErrNoQuery
	}
	if a.looked == nil {
		a.looked = map[int]int{}
	}
	out := a.asked[n]
	if a.looked[n]++; a.looked[n] > 1 {
		if out.Running, out.Failed, out.Cost = false, a.Failed, "It read 2 GB, which is about $0.01."; a.Failed == "" {
			out.Uses = a.Uses
		}
	}
	return out, nil
}
