package decide

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// maxCallLines limits the lines of calls that one page of agents reads.
const maxCallLines = 10_000

// A SeenAgent is an agent that has a valid agent token, that called in the last month, or that has
// requested access.
type SeenAgent struct {
	ID       string    `json:"id" doc:"the id that rules and stops use"`
	Client   string    `json:"client,omitempty" doc:"the client that the token of the last call names, in azp, client_id or cid"`
	Human    string    `json:"human,omitempty" doc:"the person for whom the agent made its last call"`
	Last     time.Time `json:"last,omitzero" doc:"time of the last call or search; absent: none is known"`
	IsRough  bool      `json:"last_is_rough,omitempty" doc:"last is the beginning of the hour or the minute of the last call"`
	HasToken bool      `json:"has_token,omitempty" doc:"the agent has a valid agent token"`
	Inexact  bool      `json:"inexact,omitempty" doc:"the id is longer, or has unprintable characters: no stop can name it as it is shown here"`

	usage.Use
	Tools  int `json:"tools" doc:"number of tools that it called"`
	Grants int `json:"grants" doc:"number of its grants that have not ended"`

	Stopped  *stop.Stop      `json:"stopped,omitempty"`
	Sessions []connect.Visit `json:"sessions,omitempty" nullable:"false" doc:"the clients that connected to this process as this agent, newest first. A client chooses its name"`
}

// An AgentQuery selects agents.
type AgentQuery struct {
	Agent string `query:"agent" maxLength:"512" doc:"exactly this id"`
	Text  string `query:"q" maxLength:"512" doc:"part of the id"`
}

// A SeenAgents is a page of agents, the agent with the newest call first.
type SeenAgents struct {
	Agents    []SeenAgent `json:"agents" nullable:"false"`
	Used      []UsedTool  `json:"used,omitempty" nullable:"false" doc:"the tools that the agent used most in the last month, if the query names one agent"`
	Uncounted bool        `json:"uncounted,omitempty" doc:"this process does not count calls by agent; the usage has a search for it"`
	Missing   []string    `json:"missing,omitempty" doc:"what could not be read; the gateway's log says why"`
	Next
}

// SeenAgents returns a page of the agents.
func (d *Service) SeenAgents(ctx context.Context, q AgentQuery, p Paging) (SeenAgents, error) {
	c := agentCollector{d: d, all: map[string]*SeenAgent{}}
	counted, isCounted := d.o.Usage.(usage.AgentSource)
	if isCounted {
		c.addCounted(ctx, counted)
	}
	c.addKnown(ctx)
	out := SeenAgents{Uncounted: !isCounted}
	var err error
	if out.Agents, out.Next, err = Cut(p, "agents", c.selected(q), agentKey); err != nil {
		return SeenAgents{}, err
	}
	c.check(ctx, "the lines of calls", d.addLastCalls(ctx, out.Agents))
	for i := range out.Agents {
		d.addSessions(ctx, &out.Agents[i])
	}
	if q.Agent != "" && len(out.Agents) == 1 && isCounted {
		rows, err := counted.ToolsOf(ctx, q.Agent)
		c.check(ctx, "the counts of tools", err)
		most := usage.Most(rows, func(r usage.Row) int { return r.Calls + r.Locked + r.Refused })
		for _, r := range most[:min(len(most), maxUseRows)] {
			out.Used = append(out.Used, usedTool(d.View(ctx), r))
		}
	}
	out.Missing = c.missing
	return out, nil
}

// An agentCollector collects agents from several sources.
type agentCollector struct {
	d       *Service
	all     map[string]*SeenAgent // by id
	missing []string              // sources that could not be read
}

// check notes a source that could not be read.
func (c *agentCollector) check(ctx context.Context, source string, err error) {
	if err == nil {
		return
	}
	c.d.o.Log.LogAttrs(ctx, slog.LevelError, "agents not read",
		slog.String("part", source), slog.Any("error", err))
	c.missing = append(c.missing, source)
}

func (c *agentCollector) agent(id string) *SeenAgent {
	if c.all[id] == nil {
		c.all[id] = &SeenAgent{ID: id}
	}
	return c.all[id]
}

// addCounted adds the agents whose calls were counted.
func (c *agentCollector) addCounted(ctx context.Context, counted usage.AgentSource) {
	uses, err := counted.Agents(ctx)
	c.check(ctx, "the counts of calls", err)
	for _, u := range uses {
		a := c.agent(u.Name)
		a.Use, a.Tools, a.Last, a.IsRough = u.Use, u.Beside, u.Last, true
		isAltered := strings.ContainsRune(u.Name, utf8.RuneError)
		a.Inexact = isAltered || strings.HasSuffix(u.Name, "…")
	}
}

// addKnown adds the agents with tokens, and the agents that requested access.
func (c *agentCollector) addKnown(ctx context.Context) {
	known, err := c.d.Agents(ctx)
	c.check(ctx, "the agent tokens", err)
	for _, k := range known {
		c.agent(k.ID).HasToken = isOfToken(k.ID)
	}
	if c.d.o.Requests == nil {
		return
	}
	requests, _, err := c.d.Requests(ctx, false)
	c.check(ctx, "the requests and grants", err)
	for _, r := range requests {
		if a := c.agent(r.Agent.ID); r.Grants {
			a.Grants++
		}
	}
}

// selected returns the agents that the query selects, the agent with the newest call first.
func (c *agentCollector) selected(q AgentQuery) (rows []SeenAgent) {
	part := strings.ToLower(q.Text)
	for _, a := range c.all {
		isWanted := q.Agent == "" || a.ID == q.Agent
		if isWanted && strings.Contains(strings.ToLower(a.ID), part) {
			rows = append(rows, *a)
		}
	}
	slices.SortFunc(rows, func(a, b SeenAgent) int {
		return strings.Compare(agentKey(a), agentKey(b))
	})
	return rows
}

// agentKey returns the key by which agents are sorted.
func agentKey(a SeenAgent) string {
	return fmt.Sprintf("%019d ", math.MaxInt64-max(0, a.Last.Unix())) + a.ID
}

// addSessions adds the clients and the stop of an agent.
func (d *Service) addSessions(ctx context.Context, a *SeenAgent) {
	if d.o.Seen != nil {
		a.Sessions = d.o.Seen.Since(time.Time{}, a.ID)
	}
	if s, is := d.Stopped(ctx, a.ID); is {
		a.Stopped = &s
	}
}

// addLastCalls finds the last call of each agent in the lines of calls, if this process has them.
// An agent without a call among the newest lines keeps the rough time.
func (d *Service) addLastCalls(ctx context.Context, agents []SeenAgent) error {
	open, oldest := map[string]*SeenAgent{}, time.Time{}
	for i := range agents {
		if a := &agents[i]; !a.Last.IsZero() {
			open[a.ID] = a
			if oldest.IsZero() || a.Last.Before(oldest) {
				oldest = a.Last
			}
		}
	}
	f := audit.Filter{Kind: audit.KindCall, Since: oldest}
	if len(agents) == 1 {
		f.Actor = agents[0].ID
	}
	var at audit.Cursor
	for read := 0; d.o.Calls != nil && len(open) > 0 && read < maxCallLines; {
		lines, next, err := d.o.Calls.Read(ctx, f, at, linesRead)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if a := open[l.Agent]; a != nil {
				a.Last, a.IsRough, a.Client, a.Human = l.Time, false, l.Client, l.Human
				delete(open, l.Agent)
			}
		}
		read += max(1, len(lines))
		if at = next; next == "" {
			break
		}
	}
	return nil
}

// maxSuggested is the maximum number of bytes of a name that a page suggests.
const maxSuggested = 100

// AuditNames returns names to suggest for the filters of the audit, at most limit: the names in the
// lines, and the ids of agents if calls are counted here. It reads no requests, because on AWS this
// would take hundreds of reads for each page.
func (d *Service) AuditNames(ctx context.Context, lines []audit.Line, limit int) (names []string) {
	for _, l := range lines {
		names = append(names, l.Actor, l.Agent, l.Human)
	}
	if _, isCounted := d.o.Usage.(usage.AgentSource); isCounted {
		ids, err := d.Callers(ctx)
		if err != nil { // the names are only suggestions
			d.o.Log.LogAttrs(ctx, slog.LevelError, "agents not read", slog.Any("error", err))
		}
		names = append(names, ids...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return name == "" || len(name) > maxSuggested
	})
	return names[:min(len(names), limit)]
}
