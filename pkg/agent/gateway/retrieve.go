package gateway

import (
	"context"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const (
	maxLimit    = 50
	maxDisabled = 10
	maxFound    = 20 // callable tools of an answer, including tools that only appear by name
)

// A match is one callable tool that retrieve_tools found.
type match struct {
	Name        string          `json:"name"`
	Signature   string          `json:"signature"`
	Lossy       bool            `json:"lossy,omitempty"`
	Description string          `json:"description"`
	CallWith    string          `json:"call_with"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"` // full detail only, like the scores
	Score       *float64        `json:"score,omitempty"`
	ScoreParts  *scoreParts     `json:"score_parts,omitempty"`
}

// scoreParts are the parts of a score, before the deduction for a verb that does not match the
// query.
type scoreParts struct {
	Lexical  float64 `json:"lexical"`
	Semantic float64 `json:"semantic"`
}

// A lockedMatch is one locked tool that retrieve_tools found.
type lockedMatch struct {
	Name        string      `json:"name"`
	Description string      `json:"description"` // "" if it must not be shown
	Status      lock.Status `json:"status"`
	Note        string      `json:"note,omitempty"` // of the operator or another person
}

// matches is the answer of retrieve_tools.
type matches struct {
	Tools       []match         `json:"tools"`
	More        []string        `json:"more,omitempty"` // names of more tools; nil in full detail
	Total       int             `json:"total"`
	Disabled    []lockedMatch   `json:"disabled,omitempty"`
	Remediation json.RawMessage `json:"remediation,omitempty"` // one text for each status in Disabled
	Notice      string          `json:"notice,omitempty"`
}

// retrieve answers retrieve_tools.
//
// Callable and locked tools have separate rankings, limits and document frequencies, so that
// neither affects the other. Without include_disabled, the answer lists no locked tools. It has the
// number of matching locked tools in two cases: no callable tool matches, or the locked tools match
// better than every callable tool.
func (s *Session) retrieve(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "query", "limit", "include_disabled", "detail", "read_only")
	text := a.text("query", true, "a few words on what the tool should do")
	limit := a.integer("limit", 1, maxLimit, 10)
	withLocked := a.boolean("include_disabled")
	full := a.oneOf("detail", "compact", "full") == "full"
	readOnly := a.boolean("read_only")
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}

	callable, locked := s.split()
	if readOnly {
		callable, locked = callable.Intersect(s.view.ReadOnly()), locked.Intersect(s.view.ReadOnly())
	}
	span := observe.StartSpan(ctx, observe.Search)
	defer span.End()
	index, opts := s.st.Catalog.Index(), search.Options{Lexical: s.st.Config.Gateway.Ranking == "lexical"}
	query := index.Query(text)
	depth := limit
	if !full {
		depth = max(limit, maxFound)
	}
	best := index.Rank(query, callable, depth, opts)
	out := matches{Tools: make([]match, min(limit, len(best.Hits))), Total: best.Total}
	for n := range out.Tools {
		out.Tools[n] = s.match(best.Hits[n], full)
	}
	if next := best.Hits[len(out.Tools):]; len(next) > 0 {
		out.More = make([]string, len(next))
		for n, hit := range next {
			out.More[n] = s.view.IDText(hit.Doc)
		}
	}
	nudge := ""
	var found tool.Set // the locked tools that the search covered
	opts.Matched = true
	switch {
	case withLocked:
		best := index.Rank(query, locked, min(limit, maxDisabled), opts)
		found = best.Matched
		out.Disabled, out.Remediation = s.lockedMatches(best.Hits, full)
		if out.Total+best.Total == 0 {
			out.Notice = s.noticeEmpty(0)
		}
	case out.Total == 0:
		best := index.Rank(query, locked, 0, opts)
		found = best.Matched
		nudge = noticeLocked(best.Total)
		out.Notice = s.noticeEmpty(best.Total)
	case s.st.Config.Gateway.Notice == "best" && locked.Len() > 0:
		found = index.Outranking(query, locked, callable, opts)
		nudge = noticeBetter(found.Len())
		out.Notice = nudge
	}
	s.event.Found = s.auditFound(out, found)
	s.event.Counts.IncludeDisabled, s.event.Counts.Nudged = withLocked, nudge != ""
	if full {
		return s.answer(out)
	}
	buffer := answers.Get().(*[]byte)
	defer answers.Put(buffer)
	if s.st.Config.Gateway.Answers == "lines" {
		*buffer = out.appendLines((*buffer)[:0])
	} else {
		*buffer = out.appendCompact((*buffer)[:0])
	}
	return s.answerJSON(*buffer)
}

// auditFound returns the audit's record of a search: the answer, and the matching locked tools that
// the search covered.
func (s *Session) auditFound(answer matches, locked tool.Set) *audit.Matches {
	f := &audit.Matches{Callable: answer.Total}
	for _, m := range answer.Disabled {
		f.Shown = append(f.Shown, m.Name)
	}
	for i := range locked.All() {
		if f.Locked == nil {
			f.Locked = map[string]int{}
		}
		f.Locked[string(s.view.Status(i))]++
	}
	return f
}

func (s *Session) match(hit search.Hit, full bool) match {
	signature, lossy, description := s.view.Brief(hit.Doc)
	m := match{
		Name:      s.view.IDText(hit.Doc),
		Signature: signature,
		Lossy:     lossy,
		CallWith:  variant(s.view.Tier(hit.Doc)),
	}
	if !full {
		m.Description = tool.FirstSentence(description)
	} else {
		m.Description, m.InputSchema = description, s.view.Tool(hit.Doc).Definition.InputSchema
		m.Score, m.ScoreParts = &hit.Score, &scoreParts{hit.Lexical, hit.Semantic}
	}
	return m
}

// lockedMatches returns the entries of locked tools, and an object with one remediation for each of
// their statuses. The statuses are in the order of precedence. Without hits it returns nil, nil.
func (s *Session) lockedMatches(hits []search.Hit, full bool) (out []lockedMatch, remediation json.RawMessage) {
	if len(hits) == 0 {
		return nil, nil
	}
	links := map[lock.Status]string{}
	for _, hit := range hits {
		id, status := s.view.ID(hit.Doc), s.view.Status(hit.Doc)
		text := s.view.Description(hit.Doc, status)
		if !full {
			text = tool.FirstSentence(text)
		}
		out = append(out, lockedMatch{
			Name: id.String(), Description: text, Status: status, Note: s.note(hit.Doc, status, s.view.Note(hit.Doc, status)),
		})
		link := approval.Link(s.g.o.BaseURL, id)
		if _, hasLink := links[status]; hasLink && link != "" {
			link = s.g.o.BaseURL + "/admin/tools?status=" + string(status)
		}
		links[status] = link
	}
	return out, remediations(tool.Tool, links, s.canAsk())
}

// note returns the operator's note about a denial, or note, a person's note about another lock.
func (s *Session) note(i int, status lock.Status, note string) string {
	return s.g.note(s.view, i, status, note)
}

func (g *Gateway) note(v *state.View, i int, status lock.Status, note string) string {
	switch {
	case status == lock.DisabledByConfig:
		return v.Verdict(i).Denial.Note()
	case status == lock.ServerDisabled && note == "":
		cause, _ := v.ServerStopped(v.Server(i))
		return g.stopNote(cause)
	}
	return note
}
