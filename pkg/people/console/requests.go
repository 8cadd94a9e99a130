package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// maxAsked is how many requests the inbox has.
const maxAsked = 5

// countAge is how old the number of open requests may be that stands on every page.
const countAge = 10 * time.Second

// A requestsPage lists what agents ask for.
type requestsPage struct {
	Page
	Asks  []askRow
	All   bool // also what is not open any more
	Total int
	Some  bool // there are more than the store reads at once
	pager
}

// An askRow is one request of a list, or what several agents ask for alike.
type askRow struct {
	decide.Request
	Link   string
	Short  string // name of what is asked for, clipped
	Who    string // asks
	Agents int    // that ask for the same
}

// requestPages adds the pages about what agents ask for.
func (c *Console) requestPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/requests", c.pageOr(next, c.requests))
	mux.Handle("GET /admin/requests/{id}", c.pageOr(next, c.showRequest))
	mux.Handle("POST /admin/requests/{id}", formOr(next, c.showRequest))
	mux.Handle("POST /admin/requests/{id}/decide", formOr(next, c.decideRequest))
	mux.Handle("GET /admin/ask/{code}", c.pageOr(next, c.asking))
	mux.Handle("POST /admin/ask/{code}", formOr(next, c.ask))
	mux.Handle("POST /admin/ask/{code}/withdraw", formOr(next, c.withdraw))
}

// requests shows what agents ask for.
func (c *Console) requests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := &requestsPage{Page: Page{Title: "Requests", Here: "requests"}, All: query.Get("state") == "all"}
	skip, _ := strconv.Atoi(query.Get("skip")) // 0 is the beginning
	list, all, err := c.o.Service.Requests(r.Context(), !p.All)
	if err != nil {
		c.failed(w, r, "requests", err)
		return
	}
	rows := joined(rootOf(r), list)
	p.Total, p.Some = len(rows), !all
	skip = max(0, min(skip, len(rows)))
	p.Asks = rows[skip:min(skip+maxRows, len(rows))]
	at := func(skip int) string {
		q := url.Values{}
		if p.All {
			q.Set("state", "all")
		}
		if skip > 0 {
			q.Set("skip", strconv.Itoa(skip))
		}
		return withQuery(rootOf(r)+"admin/requests", q)
	}
	if skip > 0 {
		p.First = at(0)
	}
	if skip+maxRows < len(rows) {
		p.More = at(skip + maxRows)
	}
	c.render(w, r, http.StatusOK, "requests", p)
}

// joined returns the rows of requests: those of several agents that are open for the same definition
// are one, which leads to the oldest of them.
func joined(root string, list []decide.Request) (rows []askRow) {
	at := map[string]int{} // the rows of requests that are alike, by their ids
	for _, q := range list {
		row := askRow{Request: q, Link: root + "admin/requests/" + q.ID, Agents: 1 + len(q.Alike)}
		row.Short, row.Who = shorten(q.Tool), agentName(q.Agent)
		if i, ok := at[q.ID]; ok {
			rows[i] = row
			continue
		}
		for _, id := range q.Alike {
			at[id] = len(rows)
		}
		rows = append(rows, row)
	}
	return rows
}

// agentName returns who asks, as a line shows it.
func agentName(a request.Agent) string {
	if a.Human == "" {
		return shorten(a.ID)
	}
	return shorten(a.ID) + " for " + shorten(a.Human)
}

// requestStates are what became of requests, for people, and how they look.
var requestStates = map[decide.RequestState]stateChip{
	decide.RequestOpen:      {"open", "pending_approval"},
	decide.RequestApproved:  {"approved for all", decide.Callable},
	decide.RequestAllowed:   {"allowed for a while", decide.Callable},
	decide.RequestConfirmed: {"confirmed", decide.Callable},
	decide.RequestUsed:      {"confirmed and used", ""},
	decide.RequestDeclined:  {"declined", "denied"},
	decide.RequestRevoked:   {"ended by a person", ""},
	decide.RequestOver:      {"over", ""},
	decide.RequestChanged:   {"the definition changed", ""},
	decide.RequestCallable:  {"can be called", decide.Callable},
	decide.RequestWithdrawn: {"withdrawn", ""},
	decide.RequestExpired:   {"expired", ""},
}

// A stateChip is what became of a request, as a page shows it.
type stateChip struct{ Text, Class string }

// chipOf returns how a page shows a state.
func chipOf(s decide.RequestState) stateChip {
	if known, ok := requestStates[s]; ok {
		return known
	}
	return stateChip{string(s), ""}
}

// asks remembers for a moment how many requests are open, by server: every page shows it.
type asks struct {
	mu   sync.Mutex
	at   time.Time
	open map[string]int
}

// openAsks returns how many requests are open about which somebody with these rights decides.
func (c *Console) openAsks(ctx context.Context, rights identity.Rights) (n int) {
	if !c.o.Service.TakesRequests() || rights.Role < identity.Approver {
		return 0
	}
	c.asks.mu.Lock()
	open, old := c.asks.open, c.o.Now().Sub(c.asks.at) >= countAge
	c.asks.mu.Unlock()
	if open == nil || old {
		list, _, err := c.o.Service.Requests(ctx, true)
		if err != nil {
			_ = c.o.Service.Explain(ctx, "requests", err) // which logs it
		}
		open = c.counted(list)
	}
	for server, of := range open {
		if rights.Decides(server) {
			n += of
		}
	}
	return n
}

// counted remembers how many of these requests there are to decide about.
func (c *Console) counted(list []decide.Request) map[string]int {
	open := map[string]int{}
	for _, row := range joined("", list) {
		open[row.Server]++
	}
	c.asks.mu.Lock()
	defer c.asks.mu.Unlock()
	c.asks.open, c.asks.at = open, c.o.Now()
	return open
}

// forgetAsks has them counted again, since one was decided.
func (c *Console) forgetAsks() {
	c.asks.mu.Lock()
	defer c.asks.mu.Unlock()
	c.asks.open = nil
}

// askedFor is what the inbox says of requests.
type askedFor struct {
	Asks       []askRow // the newest
	AskN       int
	AsksMore   bool // there are more than the store reads at once
	AsksUnread bool // they cannot be read
}

// askedOf returns what the inbox says of requests.
func (c *Console) askedOf(r *http.Request) (a askedFor) {
	if !c.o.Service.TakesRequests() {
		return a
	}
	list, all, err := c.o.Service.Requests(r.Context(), true)
	if err != nil {
		_ = c.o.Service.Explain(r.Context(), "requests", err) // which logs it
		a.AsksUnread = true
		return a
	}
	c.counted(list)
	rows := joined(rootOf(r), list)
	slices.SortStableFunc(rows, func(x, y askRow) int { return y.Opened.Compare(x.Opened) })
	a.AskN, a.Asks, a.AsksMore = len(rows), rows[:min(len(rows), maxAsked)], !all
	return a
}

// spanOf returns so many minutes in words.
func spanOf(minutes int) string {
	if minutes == 0 {
		return "for good"
	}
	return text.Minutes(minutes)
}
