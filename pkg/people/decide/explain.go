package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A SearchExplainer answers a search as the gateway answers an agent; *gateway.Gateway is one.
type SearchExplainer interface {
	ExplainSearch(ctx context.Context, c gateway.Caller, query string, withLocked bool, limit int) (*gateway.Explanation, error)
}

// A SearchQuery is a search that a person tries on behalf of an agent.
type SearchQuery struct {
	Agent    string `query:"agent" doc:"id of a known agent, or the ARN of a signer; empty: the agent of claims, or a hypothetical agent with the permissions in servers, tiers and toolsets. These permissions also apply to a known agent with a JWT, because the gateway knows only its id"`
	Claims   string `query:"claims" maxLength:"4096" doc:"claims of a JWT, as JSON, that describe the agent"`
	Servers  string `query:"servers" doc:"servers that the hypothetical agent may see, separated by commas; * or empty: all"`
	Tiers    string `query:"tiers" doc:"tiers that the hypothetical agent may call, separated by commas; empty: all"`
	Toolsets string `query:"toolsets" doc:"toolsets that limit the hypothetical agent, separated by commas; empty: no limit"`

	Path    string `query:"path" doc:"what follows /mcp in the address: nothing, /readonly or /x/{toolset}"`
	Select  string `query:"x_mcp_toolsets" doc:"header X-MCP-Toolsets; empty: it is not sent"`
	Tools   string `query:"x_mcp_tools" doc:"header X-MCP-Tools"`
	Exclude string `query:"x_mcp_exclude_tools" doc:"header X-MCP-Exclude-Tools"`

	Query           string `query:"query" maxLength:"2000" doc:"the agent's search"`
	IncludeDisabled bool   `query:"include_disabled" doc:"include_disabled of the agent's search"`
	Limit           int    `query:"limit" minimum:"1" maximum:"50" default:"10"`
}

// HypotheticalAgent is the id of an agent that exists only in an explanation.
const HypotheticalAgent = "made-up"

// An Explanation says what the agent gets, and why.
type Explanation struct {
	Agent   ExplainedAgent   `json:"agent"`
	Refused string           `json:"refused,omitempty" doc:"why the gateway refuses the whole request, in the words that the agent sees"`
	Direct  bool             `json:"direct,omitempty" doc:"tools/list has the tools themselves, so there is no search"`
	Exists  int              `json:"exists" doc:"number of tools that exist for the request"`
	Menu    json.RawMessage  `json:"menu,omitempty" doc:"the first page of tools/list"`
	Answer  json.RawMessage  `json:"answer,omitempty" doc:"the result of retrieve_tools"`
	Groups  []ExplainedGroup `json:"groups" nullable:"false" doc:"callable, locked, hidden; each is ranked separately"`
}

// An ExplainedAgent is the agent on whose behalf the person searches.
type ExplainedAgent struct {
	ID       string      `json:"id"`
	Servers  []string    `json:"servers" nullable:"false"`
	Tiers    []tool.Tier `json:"tiers" nullable:"false"`
	Toolsets []string    `json:"toolsets,omitempty"`
}

// An ExplainedGroup has the matching tools of one group.
type ExplainedGroup struct {
	Name  string          `json:"name" enum:"callable,locked,hidden" doc:"hidden: the tools do not exist for the request"`
	Total int             `json:"total" doc:"number of matching tools"`
	Tools []ExplainedTool `json:"tools" nullable:"false"`
}

// An ExplainedTool is a matching tool with the result of every check on it.
type ExplainedTool struct {
	ItemName
	Tier     tool.Tier        `json:"tier" enum:"read,write,destructive"`
	Status   string           `json:"status" doc:"for a hidden tool, the status that it would have if it existed"`
	Note     string           `json:"note,omitempty" doc:"further text that the agent gets"`
	Rank     int              `json:"rank"`
	Lexical  float64          `json:"lexical" doc:"how well the words match, 0 to 1"`
	Semantic float64          `json:"semantic" doc:"how well the meaning matches, 0 to 1"`
	Checks   []ExplainedCheck `json:"checks" nullable:"false" doc:"in the order in which the gateway makes them"`

	// Unannotated says that the tool counts as destructive only because it has no annotations.
	Unannotated bool `json:"-"`
}

// An ExplainedCheck is the result of one check.
type ExplainedCheck struct {
	Name   string `json:"name" enum:"scope,offered,selected,models,server,lists,policy,person,approval,tier"`
	Passed string `json:"passed" enum:"yes,no,unknown"`
	Detail string `json:"detail,omitempty" doc:"the reason for the result"`
}

// checkTexts are the texts of passed and failed checks.
var checkTexts = map[string][2]string{
	"scope":    {"in the agent's scope", "its server is not in the agent's scope"},
	"offered":  {"offered", "the operator or the toolsets of the agent exclude it"},
	"selected": {"selected", "the request does not select it"},
	"models":   {"for models", "only pages of its server call it"},
	"server":   {"server on", "its server is off"},
	"lists":    {"no list denies it", "denied by a list"},
	"policy":   {"no policy denies it", "denied by the policy"},
	"person":   {"nobody disabled it", "disabled by a person"},
	"approval": {"approved", "waits for approval"},
	"grant":    {"a person allows it to this agent for a while", "not allowed to this agent"},
	"tier":     {"the agent may call this tier", "the agent may not call this tier"},
}

// Text returns the result of the check in words.
func (c ExplainedCheck) Text() string {
	switch texts := checkTexts[c.Name]; c.Passed {
	case "yes":
		return texts[0]
	case "no":
		return texts[1]
	default:
		return "not known: " + texts[0]
	}
}

// Agents returns the agents whose names are known.
func (d *Service) Agents(ctx context.Context) ([]identity.Agent, error) {
	return d.o.Agents.List(ctx, d.o.Now())
}

// TakesClaims reports whether a query can describe an agent by the claims of a JWT.
func (d *Service) TakesClaims() bool { return d.o.Agents.Claims != nil }

// agentOf returns the agent of the query.
func (d *Service) agentOf(ctx context.Context, w SearchQuery) (identity.Agent, error) {
	switch {
	case w.Agent == "" && strings.TrimSpace(w.Claims) != "":
		a, err := d.o.Agents.FromClaims([]byte(w.Claims))
		if err != nil {
			return a, invalid("the claims do not describe an agent: %s", text.Line(err.Error()))
		}
		return a, nil
	case w.Agent == "":
		return w.hypothetical(HypotheticalAgent)
	}
	if a, ok, err := d.knownAgent(ctx, w.Agent); ok || err != nil {
		return a, err
	}
	if seen, err := d.seenAgents(ctx); err == nil && d.TakesClaims() && !isOfToken(w.Agent) && slices.Contains(seen, w.Agent) {
		a, err := w.hypothetical(w.Agent)
		a.Way = identity.WayJWT
		return a, err
	}
	return identity.Agent{}, invalid("no agent is called %s: choose one from the list, or say what the agent may see and call", text.Quote(w.Agent, 80))
}

// knownAgent returns the agent with a known name, or the agent of a signer with this ARN. ok is
// false if there is none.
func (d *Service) knownAgent(
	ctx context.Context, id string,
) (a identity.Agent, ok bool, err error) {
	known, err := d.Agents(ctx)
	if err != nil {
		return identity.Agent{}, false, err
	}
	if i := slices.IndexFunc(known, func(a identity.Agent) bool { return a.ID == id }); i >= 0 {
		return known[i], true, nil
	}
	a, err = d.o.Agents.Signer(id)
	return a, err == nil, nil
}

// hypothetical returns an agent with the permissions of the query: by default it may do everything.
func (w SearchQuery) hypothetical(id string) (identity.Agent, error) {
	a := identity.Agent{ID: id, Servers: text.Names(cmp.Or(strings.TrimSpace(w.Servers), "*")), Toolsets: text.Names(w.Toolsets)}
	for _, name := range text.Names(cmp.Or(strings.TrimSpace(w.Tiers), EveryTier)) {
		tier, err := tool.ParseTier(name)
		if err != nil {
			return a, invalid("%q is not a tier: the tiers are read, write and destructive", text.Clip(name, 40))
		}
		a.Tiers = append(a.Tiers, tier)
	}
	return a, nil
}

// EveryTier is the value of the field Tiers of a [SearchQuery] that means all tiers.
const EveryTier = "read, write, destructive"

// ExplainSearch searches as an agent would, and says why the agent gets this result. It calls no
// tool, and usage does not count it.
func (d *Service) ExplainSearch(ctx context.Context, w SearchQuery) (Explanation, error) {
	if d.o.SearchExplainer == nil {
		return Explanation{}, Refuse(http.StatusNotImplemented, "this program cannot try searches")
	}
	agent, err := d.agentOf(ctx, w)
	if err != nil {
		return Explanation{}, err
	}
	out := Explanation{Agent: ExplainedAgent{agent.ID, append([]string{}, agent.Servers...), append([]tool.Tier{}, agent.Tiers...), agent.Toolsets}, Groups: []ExplainedGroup{}}
	if text.Blank(w.Query) {
		return out, invalid("the query is empty: say what the agent wants to do")
	}
	header := http.Header{}
	for name, value := range map[string]string{"X-MCP-Toolsets": w.Select, "X-MCP-Tools": w.Tools, "X-MCP-Exclude-Tools": w.Exclude} {
		if value != "" {
			header.Set(name, value)
		}
	}
	c := gateway.Caller{Agent: agent, Path: strings.TrimPrefix(strings.TrimSpace(w.Path), "/mcp"), Header: header}
	t, err := d.o.SearchExplainer.ExplainSearch(ctx, c, w.Query, w.IncludeDisabled, cmp.Or(w.Limit, 10))
	if err != nil {
		return out, err
	}
	out.Refused, out.Direct, out.Exists, out.Menu, out.Answer = t.Refused, t.Direct, t.Exists, t.Menu, t.Answer
	v := d.View(ctx)
	for _, g := range t.Groups {
		group := ExplainedGroup{g.Name, g.Total, []ExplainedTool{}}
		for _, x := range g.Tools {
			e := explainedTool(x)
			if i, ok := v.Find(x.ID); ok {
				e.Unannotated = isUnannotated(e.Kind, v.Hints(i))
			}
			group.Tools = append(group.Tools, e)
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

func explainedTool(x gateway.ExplainedTool) ExplainedTool {
	out := ExplainedTool{
		ItemName: itemNameOf(x.ID, tool.Definition{}), Tier: x.Tier, Status: StatusText(x.Status), Note: x.Note, Rank: x.Rank, Lexical: x.Lexical, Semantic: x.Semantic,
	}
	for _, c := range x.Checks {
		passed := map[lock.Fact]string{lock.Yes: "yes", lock.No: "no"}[c.Passed]
		out.Checks = append(out.Checks, ExplainedCheck{c.Name, cmp.Or(passed, "unknown"), c.Detail})
	}
	return out
}
