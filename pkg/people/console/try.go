package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A tryPage shows the result of an agent's search, and the reasons.
type tryPage struct {
	Page
	Wish    decide.SearchQuery
	Agents  []string // ids of known agents
	Claims  bool     // the form accepts the claims of a JWT
	Trial   *decide.Explanation
	Groups  []tryGroup
	Listed  int // tools in the agent's menu
	Answer  excerpt
	Bytes   int    // of the answer
	NoNames string // why the page does not list the known agents; "": it does
}

// A tryGroup is the tools of one group.
type tryGroup struct {
	decide.ExplainedGroup
	Heading, Hint string
	Rows          []tryRow
}

// A tryRow is one tool.
type tryRow struct {
	decide.ExplainedTool
	Link, Words, Meaning string
	Checks               []tryCheck
}

// A tryCheck is one check as the page shows it.
type tryCheck struct{ Mark, Class, Text, Detail string }

// maxTry limits the tools of a group that the page shows.
const maxTry = 10

// maxTryForm limits the bytes of the page's query.
const maxTryForm = 8 << 10

// try shows the result of a search by an agent.
func (c *Console) try(w http.ResponseWriter, r *http.Request) {
	if len(r.URL.RawQuery) > maxTryForm { // the page would contain the whole query again
		c.problem(w, r, http.StatusRequestURITooLong, fmt.Sprintf("The form is longer than %d KB; nothing was tried.", maxTryForm>>10))
		return
	}
	q := r.URL.Query()
	p := &tryPage{Page: Page{Title: "Try a search", Here: "try"}, Wish: queryOfTry(q), Claims: c.o.Service.TakesClaims()}
	agents, err := c.o.Service.Callers(r.Context())
	if err != nil {
		p.NoNames = sentence(c.o.Service.Explain(r.Context(), "agents", err).Detail)
	}
	p.Agents = agents[:min(len(agents), maxChoices)]
	status := http.StatusOK
	switch {
	case q.Has("query"):
		t, err := c.o.Service.ExplainSearch(r.Context(), p.Wish)
		if err != nil {
			e := c.o.Service.Explain(r.Context(), "try", err)
			status, p.Problem = e.Status, sentence(e.Detail)
		} else if all := p.show(&t); q.Has("whole") {
			writeText(w, all)
			return
		} else {
			p.Answer = excerptOf(all, maxText, withQuery(rootOf(r)+"admin/try", q, "whole", "1"))
		}
	default:
		p.Wish.Servers, p.Wish.Tiers = "*", decide.EveryTier
	}
	c.render(w, r, status, "try", p)
}

func queryOfTry(q url.Values) decide.SearchQuery {
	limit, _ := strconv.Atoi(q.Get("limit")) // 0 is the default
	return decide.SearchQuery{
		Agent: q.Get("agent"), Claims: q.Get("claims"), Servers: q.Get("servers"), Tiers: q.Get("tiers"), Toolsets: q.Get("toolsets"),
		Path: q.Get("path"), Select: q.Get("x_mcp_toolsets"), Tools: q.Get("x_mcp_tools"), Exclude: q.Get("x_mcp_exclude_tools"),
		Query: q.Get("query"), IncludeDisabled: q.Get("include_disabled") != "", Limit: max(0, min(limit, maxTry)),
	}
}

// Tokens estimates how many tokens the answer costs a model.
func (p *tryPage) Tokens() int { return (p.Bytes + 3) / 4 }

// show fills in the result of a search, and returns the answer.
func (p *tryPage) show(t *decide.Explanation) string {
	p.Trial = t
	var menu struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(t.Menu, &menu); err == nil {
		p.Listed = len(menu.Tools)
	}
	answer := t.Answer
	if t.Direct {
		answer = t.Menu
	}
	p.Bytes = len(answer)
	for _, g := range t.Groups {
		p.Groups = append(p.Groups, tryGroupOf(g))
	}
	return resultText(answer)
}

// resultText returns the text of a result, indented. If the result is not a single text, it returns
// the whole result.
func resultText(raw json.RawMessage) string {
	var result struct{ Content []struct{ Text string } }
	if json.Unmarshal(raw, &result) == nil && len(result.Content) == 1 {
		raw = json.RawMessage(result.Content[0].Text)
	}
	return rawjson.Indent(raw, "", "  ")
}

func tryGroupOf(g decide.ExplainedGroup) tryGroup {
	out := tryGroup{ExplainedGroup: g, Heading: "Callable", Hint: "ranked among the tools that the agent may call"}
	switch g.Name {
	case "locked":
		out.Heading, out.Hint = "Locked", "found with include_disabled: true, ranked among themselves"
	case "hidden":
		out.Heading, out.Hint = "Hidden", "they do not exist for this request, and affect no answer, count or order"
	}
	for _, x := range g.Tools {
		row := tryRow{ExplainedTool: x, Link: strings.TrimPrefix(x.Address, "/"), Words: share(x.Lexical), Meaning: share(x.Semantic)}
		for _, check := range x.Checks {
			row.Checks = append(row.Checks, tryCheckOf(check))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// share formats a number from 0 to 1 with two digits.
func share(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

func tryCheckOf(check decide.ExplainedCheck) tryCheck {
	switch check.Passed {
	case "yes":
		return tryCheck{"✓", "plus", check.Text(), check.Detail}
	case "no":
		return tryCheck{"✕", "minus", check.Text(), check.Detail}
	}
	return tryCheck{"?", "minus", check.Text(), check.Detail}
}
