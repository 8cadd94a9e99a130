package decide

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// maxUseRows limits the tools and agents in each list of the usage.
const maxUseRows = 25

// A Usage says how agents used the tools in a time range.
type Usage struct {
	Range   string        `json:"range"`
	From    time.Time     `json:"from"`
	To      time.Time     `json:"to" doc:"the end of the last bucket, which has not ended yet"`
	Step    int           `json:"step_seconds" doc:"length of a bucket; a series has one value for each bucket, the oldest first"`
	Charts  []usage.Chart `json:"charts" nullable:"false"`
	Uses    *UseRows      `json:"uses,omitempty" doc:"use by tool and by agent; absent: not known"`
	CanAsk  bool          `json:"can_ask" doc:"only a query can tell the use by tool and by agent: POST to this address"`
	Query   *UsageQuery   `json:"query,omitempty" doc:"the query that the request names"`
	Missing []string      `json:"missing" nullable:"false" doc:"what is not known, and why"`

	Dashboard string `json:"dashboard,omitempty" doc:"address of the CloudWatch dashboard with the charts; only on AWS"`
}

// UseRows are tools and agents sorted by use.
type UseRows struct {
	Wanted []UsedTool  `json:"wanted" nullable:"false" doc:"tools that are locked now, and that agents called or found, the most wanted first"`
	Most   []UsedTool  `json:"most" nullable:"false" doc:"tools by how often they were called"`
	Agents []UsedAgent `json:"agents" nullable:"false"`
	More   MoreUses    `json:"more" doc:"how many rows each list omits"`
}

// MoreUses says how many rows each list omits.
type MoreUses struct {
	Wanted int `json:"wanted"`
	Most   int `json:"most"`
	Agents int `json:"agents"`
}

// A UsedTool is a tool, a prompt or a resource with its use by agents.
type UsedTool struct {
	ID     string `json:"id" doc:"empty: all others, which are not counted separately"`
	Status string `json:"status" doc:"as of now; not_listed: the catalog does not have it"`
	Agents int    `json:"agents" doc:"number of agents that called it, including refused calls"`
	usage.Use
}

// A UsedAgent is an agent with what it used.
type UsedAgent struct {
	Agent string `json:"agent" doc:"empty: all others, which are not counted separately"`
	Tools int    `json:"tools" doc:"number of tools that it called"`
	usage.Use
}

// A UsageQuery is a query for tools and agents.
type UsageQuery struct {
	ID      string    `json:"id"`
	AskedAt time.Time `json:"asked_at,omitzero"`
	Running bool      `json:"running"`
	Failed  string    `json:"failed,omitempty" doc:"why there is no answer"`
	Cost    string    `json:"cost,omitempty" doc:"cost, and how it was computed"`
}

// rangeOf returns the range with a name; "" is a day.
func rangeOf(name string) (usage.Range, error) {
	if name == "" {
		name = "24h"
	}
	r, ok := usage.ParseRange(name)
	if !ok {
		return r, invalid("range is %q; it can be 1h, 24h, 7d or 30d", name)
	}
	return r, nil
}

// Usage returns how agents use the tools. query is the id of an earlier [Service.AskUsage]; "":
// none.
func (d *Service) Usage(ctx context.Context, name, query string) (Usage, error) {
	r, err := rangeOf(name)
	if err != nil {
		return Usage{}, err
	}
	if d.o.Usage == nil {
		return Usage{}, Refuse(http.StatusNotImplemented, "this gateway does not count its usage")
	}
	report, err := d.o.Usage.Usage(ctx, r)
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "usage not read", slog.String("range", r.Name), slog.Any("error", err))
		return Usage{}, Refuse(http.StatusServiceUnavailable, "the usage cannot be read now, and nothing else is affected: try again in a minute; if that fails too, the operator finds the cause in the log")
	}
	from := report.Total.Start
	out := Usage{
		Range: r.Name, From: from, To: from.Add(r.Step * time.Duration(r.Buckets)), Step: int(r.Step / time.Second),
		Charts: report.Charts(), Missing: append([]string{}, report.Says...),
		Dashboard: d.o.Dashboard,
	}
	uses := report.Uses
	asker, canAsk := d.o.Usage.(usage.Asker)
	if out.CanAsk = canAsk; canAsk && query != "" {
		if out.Query, uses, err = d.answer(ctx, asker, r, query); err != nil {
			return Usage{}, err
		}
	}
	if uses != nil {
		out.Uses = useRows(d.View(ctx), uses)
	}
	return out, nil
}

// answer returns the answer of a query.
func (d *Service) answer(ctx context.Context, asker usage.Asker, r usage.Range, query string) (*UsageQuery, *usage.Uses, error) {
	a, err := asker.Answer(ctx, query)
	switch {
	case errors.Is(err, usage.ErrNoQuery):
		return nil, nil, Refuse(http.StatusNotFound, "this query for tools and agents is unknown: the gateway stores answers only for a short time; send a new query")
	case err != nil:
		d.o.Log.LogAttrs(ctx, slog.LevelError, "usage by tool and agent not read", slog.Any("error", err))
		return &UsageQuery{ID: query, Failed: "The answer cannot be read now. Load the page again; you need no new query. The log says more."}, nil, nil
	case a.Range != r.Name:
		return nil, nil, invalid("the query is for the range %s, and this page is for %s; leave the query out", a.Range, r.Name)
	}
	return &UsageQuery{ID: query, AskedAt: a.AskedAt, Running: a.Running, Failed: a.Failed, Cost: a.Cost}, a.Uses, nil
}

// AskUsage starts a query for the tools and agents of a range, and returns its id.
func (d *Service) AskUsage(ctx context.Context, name string) (StartedQuery, error) {
	r, err := rangeOf(name)
	if err != nil {
		return StartedQuery{}, err
	}
	asker, ok := d.o.Usage.(usage.Asker)
	if !ok {
		return StartedQuery{}, Refuse(http.StatusNotImplemented, "no query was started: this gateway knows tools and agents without a query, or does not count its usage")
	}
	query, err := asker.Ask(ctx, r)
	if e, ok := errors.AsType[usage.RefusedError](err); ok {
		return StartedQuery{}, Refuse(http.StatusConflict, e.Error())
	}
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "usage by tool and agent not asked for", slog.Any("error", err))
		return StartedQuery{}, Refuse(http.StatusBadGateway, "the query could not be started; if only the answer was lost, one query runs and is charged: try again in a minute; if that fails too, the operator finds the cause in the log")
	}
	d.o.Log.LogAttrs(ctx, slog.LevelInfo, "usage by tool and agent asked for", slog.String("range", r.Name), slog.String("actor", ActorOf(ctx).Name), slog.String("query", query))
	return StartedQuery{Range: r.Name, Query: query}, nil
}

// A StartedQuery is a started query for tools and agents.
type StartedQuery struct {
	Range string `json:"range"`
	Query string `json:"query" doc:"send it with range to read the answer"`
}

// useRows sorts and cuts the rows, and adds the current status of the tools.
func useRows(v *state.View, uses *usage.Uses) *UseRows {
	out := &UseRows{Wanted: []UsedTool{}, Most: []UsedTool{}, Agents: []UsedAgent{}}
	for _, r := range usage.Most(uses.Tools, func(r usage.Row) int { return r.Locked + r.Found }) {
		t := usedTool(v, r)
		switch {
		case r.Name == "" || t.Status == Callable || t.Status == NotListed:
		case len(out.Wanted) == maxUseRows:
			out.More.Wanted++
		default:
			out.Wanted = append(out.Wanted, t)
		}
	}
	most := usage.Most(uses.Tools, func(r usage.Row) int { return r.Calls })
	for _, r := range most[:min(len(most), maxUseRows)] {
		out.Most = append(out.Most, usedTool(v, r))
	}
	agents := usage.Most(uses.Agents, func(r usage.Row) int { return r.Calls + r.Locked + r.Refused + r.Searches })
	for _, r := range agents[:min(len(agents), maxUseRows)] {
		out.Agents = append(out.Agents, UsedAgent{r.Name, r.Beside, r.Use})
	}
	out.More.Most, out.More.Agents = len(most)-len(out.Most), len(agents)-len(out.Agents)
	return out
}

func usedTool(v *state.View, r usage.Row) UsedTool {
	t := UsedTool{ID: r.Name, Status: NotListed, Agents: r.Beside, Use: r.Use}
	if id, err := tool.ParseID(r.Name); err == nil {
		if i, ok := v.Find(id); ok {
			t.Status = StatusText(v.Status(i))
		}
	}
	if r.Name == "" {
		t.Status = ""
	}
	return t
}

// useOf returns how a tool was called in the last week; nil if nobody called it or a query would be
// needed to know.
func (d *Service) useOf(ctx context.Context, id tool.ID) *usage.Week {
	source, ok := d.o.Usage.(usage.ToolSource)
	if !ok {
		return nil
	}
	w, err := source.UsageOf(ctx, id.String())
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "usage of a tool not read", slog.String("tool", id.String()), slog.Any("error", err))
		return nil
	}
	if w.Calls+w.Locked == 0 {
		return nil
	}
	return &w
}
