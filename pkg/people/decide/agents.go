package decide

import (
	"cmp"
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
	out := SeenAgents{}
	failed := func(what string, err error) {
		if err != nil {
			d.o.Log.LogAttrs(
				ctx,
				slog.LevelError,
				"agents not read",
				slog.String("part", what),
				slog.Any("error", err),
			)
			out.Missing = append(out.Missing, what)
		}
	}
	all, counted := map[string]*SeenAgent{}, usage.AgentSource(nil)
	agent := func(id string) *SeenAgent {
		if all[id] == nil {
			all[id] = &SeenAgent{ID: id}
		}
		return all[id]
	}
	var err error
	if counted, _ = d.o.Usage.(usage.AgentSource); counted == nil {
		out.Uncounted = true
	} else {
		uses, err := counted.Agents(ctx)
		failed("the counts of calls", err)
		for _, u := range uses {
			a := agent(u.Name)
			a.Use, a.Tools, a.Last, a.IsRough = u.Use, u.Beside, u.Last, true
			a.Inexact = strings.HasSuffix(u.Name, "…") || strings.ContainsRune(u.Name, utf8.RuneError)
		}
	}
	known, err := d.Agents(ctx)
	failed("the agent tokens", err)
	for _, k := range known {
		agent(k.ID).HasToken = isOfToken(k.ID)
	}
	if d.o.Requests != nil {
		requests, _, err := d.Requests(ctx, false)
		failed("the requests and grants", err)
		for _, r := range requests {
			if a := agent(r.Agent.ID); r.Grants {
				a.Grants++
			}
		}
	}
	var rows []SeenAgent
	for _, a := range all {
		if (q.Agent == "" || a.ID == q.Agent) &&
			(q.Text == "" || strings.Contains(strings.ToLower(a.ID), strings.ToLower(q.Text))) {
			rows = append(rows, *a)
		}
	}
	slices.SortFunc(
		rows,
		func(a, b SeenAgent) int { return strings.Compare(agentKey(a), agentKey(b)) },
	)
	if out.Agents, out.Next, err = Cut(p, "agents", rows, agentKey); err != nil {
		return SeenAgents{}, err
	}
	failed("the lines of calls", d.addLastCalls(ctx, out.Agents))
	for i := range out.Agents {
		d.addSessions(ctx, &out.Agents[i])
	}
	if q.Agent != "" && len(out.Agents) == 1 && counted != nil {
		rows, err := counted.ToolsOf(ctx, q.Agent)
		failed("the counts of tools", err)
		most := usage.Most(rows, func(r usage.Row) int { return r.Calls + r.Locked + r.Refused })
		for _, r := range most[:min(len(most), maxUseRows)] {
			out.Used = append(out.Used, usedTool(d.View(ctx), r))
		}
	}
	return out, nil
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

// AuditNames returns names to suggest for the filters of the audit: agents, people of the lines and
// the actor of syncs, at most limit.
func (d *Service) AuditNames(ctx context.Context, lines []audit.Line, limit int) (names []string) {
	ids, err := d.Callers(ctx)
	if err != nil { // the names are only suggestions
		d.o.Log.LogAttrs(ctx, slog.LevelError, "agents not read", slog.Any("error", err))
	}
	for _, l := range lines {
		names = append(names, l.Actor, l.Agent, l.Human)
	}
	names = append(names, ids...)
	seen := map[string]bool{"": true}
	names = slices.DeleteFunc(names, func(name string) bool {
		was := seen[name] || len(name) > maxSuggested
		seen[name] = true
		return was
	})
	names = names[:min(len(names), limit)]
	slices.SortFunc(
		names,
		func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) },
	)
	return names
}
