package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// An Explanation is a search of one agent, with the state of each tool that matches. It is for
// people: it includes tools that do not exist for the agent.
type Explanation struct {
	Refused string           // the refusal of the agent's request; "": not refused
	Direct  bool             // direct mode: tools/list lists the tools, and there is no search
	Menu    json.RawMessage  // the result of tools/list
	Answer  json.RawMessage  // the result of retrieve_tools; nil if Direct
	Exists  int              // tools that exist for the request
	Groups  []ExplainedGroup // callable, locked, hidden
}

// The groups of an [Explanation]. Each has its own ranking.
const (
	explainCallable = "callable"
	explainLocked   = "locked"
	explainHidden   = "hidden" // it does not exist for the request
)

// An ExplainedGroup is the matching tools of one group.
type ExplainedGroup struct {
	Name  string
	Total int // matching tools, without the limit
	Tools []ExplainedTool
}

// An ExplainedTool is a tool that matches, with all facts that decide whether the agent may call
// it.
type ExplainedTool struct {
	ID                tool.ID
	Tier              tool.Tier
	Status            lock.Status // of a hidden tool: the status that it would have
	Note              string      // the note for agents
	Rank              int         // in its group, from 1
	Lexical, Semantic float64     // parts of the rank, 0 to 1

	// Checks are in order. If a check hides the tool, the later checks show the tool's state as if
	// it were not hidden.
	Checks []Check
}

// A Check is one condition for an agent to call a tool.
type Check struct {
	Name   string    // one of the names below
	Passed lock.Fact // Unknown: the gateway could not determine it, so the tool is locked
	Detail string    // the rule that decided, or the tool's tier; "": none
}

// The checks, in their order. The first three decide whether the tool exists for the request.
const (
	checkScope    = "scope"    // scope includes the server
	checkOffered  = "offered"  // the operator offers the tool, and the agent's toolsets include it
	checkSelected = "selected" // the request's path and headers include it
	checkModels   = "models"   // it is for models, and not only for pages; absent if it is
	checkServer   = "server"   // its server is enabled
	checkLists    = "lists"    // no list of mcp_config.json denies it
	checkPolicy   = "policy"   // no rule of policy.cedar denies it
	checkPerson   = "person"   // no person has disabled or blocked it
	checkApproval = "approval" // its definition is approved, or need not be
	checkGrant    = "grant"    // a grant for this agent overrides person and approval; absent without a grant
	checkTier     = "tier"     // the agent may call tools of its tier
)

// ExplainSearch runs a search for an agent and explains the answer, with at most limit tools of
// each group. The search does not count as a search of the agent, and is not in its log.
func (g *Gateway) ExplainSearch(ctx context.Context, c Caller, query string, withLocked bool, limit int) (*Explanation, error) {
	s, err := g.Open(ctx, c)
	if refusal, ok := errors.AsType[*mcp.Error](err); ok {
		return &Explanation{Refused: refusal.Message}, nil
	}
	if err != nil {
		return nil, err
	}
	if s.down {
		return &Explanation{Refused: downText(s.st.Health)}, nil
	}
	s.loadGrants(ctx)
	t := &Explanation{Direct: s.direct, Exists: s.sel.Tools.Len()}
	if t.Menu, err = s.ListTools(ctx, ""); err != nil {
		return nil, err
	}
	if !s.direct {
		if t.Answer, err = s.explainRetrieve(ctx, query, withLocked, limit); err != nil {
			return nil, err
		}
	}
	return t, s.explain(t, query, limit)
}

// explainRetrieve calls retrieve_tools as a client does.
func (s *Session) explainRetrieve(ctx context.Context, query string, withLocked bool, limit int) (json.RawMessage, error) {
	arguments := map[string]any{"query": query, "limit": limit}
	if withLocked {
		arguments["include_disabled"] = true
	}
	body, err := rawjson.Encode(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": mcp.MethodCallTool, "params": map[string]any{"name": retrieveTools, "arguments": arguments},
	})
	if err != nil {
		return nil, err
	}
	r, fault := mcp.Parse(body)
	if fault != nil {
		return nil, fault
	}
	return s.CallTool(ctx, r, mcp.Client{})
}

// explain adds the groups to t.
func (s *Session) explain(t *Explanation, query string, limit int) error {
	offered, err := s.view.Select(toolset.Request{})
	if err != nil {
		return err
	}
	all := s.st.View(identity.Agent{ID: s.caller.Agent.ID, Way: s.caller.Agent.Way, Servers: []string{"*"}, Claims: s.caller.Agent.Claims})
	all = all.With(s.granted, s.g.o.Now())
	callable, locked := s.split()
	index, opts := s.st.Catalog.Index(), search.Options{Lexical: s.st.Config.Gateway.Ranking == "lexical"}
	q := index.Query(query)
	for _, group := range []struct {
		name  string
		tools tool.Set
	}{{explainCallable, callable}, {explainLocked, locked}, {explainHidden, all.Tools().Without(s.sel.Tools)}} {
		best := index.Rank(q, group.tools, limit, opts)
		out := ExplainedGroup{Name: group.name, Total: best.Total}
		for n, hit := range best.Hits {
			one := s.explainTool(all, offered.Tools, hit)
			one.Rank = n + 1
			out.Tools = append(out.Tools, one)
		}
		t.Groups = append(t.Groups, out)
	}
	return nil
}

// explainTool explains one tool. all is the view of the same agent, but with every server.
func (s *Session) explainTool(all *state.View, offered tool.Set, hit search.Hit) ExplainedTool {
	i := hit.Doc
	facts, verdict, status := all.Facts(i), all.Verdict(i), all.Status(i)
	out := ExplainedTool{ID: all.ID(i), Tier: all.Tier(i), Status: status, Lexical: hit.Lexical, Semantic: hit.Semantic}
	out.Note = s.g.note(all, i, status, all.Note(i, status))
	for _, step := range []struct {
		name string
		set  tool.Set
	}{{checkScope, s.view.Tools()}, {checkOffered, offered}, {checkSelected, s.nameable}} {
		out.Checks = append(out.Checks, Check{Name: step.name, Passed: lock.FactOf(step.set.Has(i))})
		if !step.set.Has(i) {
			break // the tool does not exist for the request, so omit the next of these three checks
		}
	}
	if s.view.Apps().AppOnly.Has(i) {
		out.Checks = append(out.Checks, Check{Name: checkModels, Passed: lock.No})
	}
	lists, policies := listsAndPolicy(verdict)
	out.Checks = append(
		out.Checks, Check{Name: checkServer, Passed: facts.ServerEnabled}, lists, policies,
		Check{Name: checkPerson, Passed: facts.UserDisabled.Not()}, Check{Name: checkApproval, Passed: facts.Approved},
	)
	if facts.Granted == lock.Yes {
		out.Checks = append(out.Checks, Check{Name: checkGrant, Passed: lock.Yes})
	}
	out.Checks = append(out.Checks,
		Check{Name: checkTier, Passed: lock.FactOf(slices.Contains(s.caller.Agent.Tiers, out.Tier)), Detail: out.Tier.String()},
	)
	return out
}

// listsAndPolicy returns the checks of the operator's rules. If a list denies the tool, the policy
// is not evaluated, and its check counts as passed.
func listsAndPolicy(v policy.Verdict) (lists, cedar Check) {
	lists, cedar = Check{Name: checkLists, Passed: lock.Yes}, Check{Name: checkPolicy, Passed: v.Denied.Not()}
	rules := strings.Join(v.Rules, ", ")
	if v.ByList() {
		lists.Passed, lists.Detail, cedar.Passed = lock.No, rules, lock.Yes
		return lists, cedar
	}
	cedar.Detail = rules
	return lists, cedar
}
