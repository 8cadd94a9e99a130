package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// maxAsked limits the requests in the inbox.
const maxAsked = 5

// A requestsPage lists the requests of agents.
type requestsPage struct {
	Page
	Asks  []askRow
	All   bool // includes requests that are no longer open
	Total int
	Some  bool // the store has more requests than one read returns
	pager
}

// An askRow is one request of a list, or the same request of several agents.
type askRow struct {
	decide.Request
	Link   string
	Short  string // name of the item, clipped
	Who    string // the requesting agent
	Agents int    // number of agents with the same request
}

// requestPages registers the pages about requests of agents.
func (c *Console) requestPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/requests", c.pageOr(next, c.requests))
	mux.Handle("GET /admin/requests/{id}", c.pageOr(next, c.showRequest))
	mux.Handle("POST /admin/requests/{id}", formOr(next, c.showRequest))
	mux.Handle("POST /admin/requests/{id}/decide", formOr(next, c.decideRequest))
	mux.Handle("GET /admin/ask/{code}", c.pageOr(next, c.asking))
	mux.Handle("POST /admin/ask/{code}", formOr(next, c.ask))
	mux.Handle("POST /admin/ask/{code}/withdraw", formOr(next, c.withdraw))
}

// requests shows the requests of agents.
func (c *Console) requests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := &requestsPage{Page: Page{Title: "Requests", Here: "requests"}, All: query.Get("state") == "all"}
	skip, _ := strconv.Atoi(query.Get("skip")) // 0 is the beginning
	list, all, err := c.o.Service.Requests(r.Context(), !p.All)
	if err != nil {
		c.failed(w, r, "requests", err)
		return
	}
	rows := askRowsOf(rootOf(r), list)
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

// askRowsOf returns the rows of requests. Open requests of several agents for the same definition
// share one row, which links to the oldest request.
func askRowsOf(root string, list []decide.Request) (rows []askRow) {
	at := map[string]int{} // rows of equal requests, by id
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

// agentName returns the name of an agent in a row.
func agentName(a request.Agent) string {
	if a.Human == "" {
		return shorten(a.ID)
	}
	return shorten(a.ID) + " for " + shorten(a.Human)
}

// requestStates has the text and the style of each state of a request.
var requestStates = map[decide.RequestState]stateChip{
	decide.RequestOpen:      {"open", "pending_approval"},
	decide.RequestApproved:  {"approved for all", decide.Callable},
	decide.RequestAllowed:   {"allowed for a time", decide.Callable},
	decide.RequestConfirmed: {"confirmed", decide.Callable},
	decide.RequestUsed:      {"confirmed and used", ""},
	decide.RequestDeclined:  {"declined", "denied"},
	decide.RequestRevoked:   {"ended by a person", ""},
	decide.RequestOver:      {"over", ""},
	decide.RequestChanged:   {"the definition changed", ""},
	decide.RequestCallable:  {"callable", decide.Callable},
	decide.RequestWithdrawn: {"withdrawn", ""},
	decide.RequestExpired:   {"expired", ""},
}

// A stateChip is the state of a request, as a page shows it.
type stateChip struct{ Text, Class string }

// chipOf returns the chip of a state.
func chipOf(s decide.RequestState) stateChip {
	if known, ok := requestStates[s]; ok {
		return known
	}
	return stateChip{string(s), ""}
}

// openAsks returns the number of open requests that a person with these rights decides about.
// Requests of several agents for the same definition count once.
func (c *Console) openAsks(ctx context.Context, rights identity.Rights) (n int) {
	if rights.Role < identity.Approver {
		return 0
	}
	counted := map[string]bool{}
	for _, q := range c.o.Service.OpenRequests(ctx) {
		if !counted[q.ID] && rights.Decides(q.Server) {
			n++
		}
		for _, id := range q.Alike {
			counted[id] = true
		}
	}
	return n
}

// askedFor is the part of the inbox about requests.
type askedFor struct {
	Asks       []askRow // the newest
	AskN       int
	AsksMore   bool // the store has more requests than one read returns
	AsksUnread bool // the requests cannot be read
}

// askedOf returns the part of the inbox about requests.
func (c *Console) askedOf(r *http.Request) (a askedFor) {
	if !c.o.Service.TakesRequests() {
		return a
	}
	list, all, err := c.o.Service.Requests(r.Context(), true)
	if err != nil {
		_ = c.o.Service.Explain(r.Context(), "requests", err) // Explain logs the error
		a.AsksUnread = true
		return a
	}
	rows := askRowsOf(rootOf(r), list)
	slices.SortStableFunc(rows, func(x, y askRow) int { return y.Opened.Compare(x.Opened) })
	a.AskN, a.Asks, a.AsksMore = len(rows), rows[:min(len(rows), maxAsked)], !all
	return a
}

// spanOf returns a number of minutes in words.
func spanOf(minutes int) string {
	if minutes == 0 {
		return "permanently"
	}
	return text.Minutes(minutes)
}
