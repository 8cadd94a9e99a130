package gateway

import (
	"context"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/search"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

const (
	maxLimit    = 50
	maxDisabled = 10
)

// A found is one callable match of retrieve_tools.
type found struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Signature   string          `json:"signature"`
	Lossy       bool            `json:"lossy,omitempty"`
	Description string          `json:"description"`
	CallWith    string          `json:"call_with"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"` // with detail full, as the next two
	Score       *float64        `json:"score,omitempty"`
	ScoreParts  *scoreParts     `json:"score_parts,omitempty"`
}

// scoreParts are what a score was added up from.
type scoreParts struct {
	Lexical  float64 `json:"lexical"`
	Semantic float64 `json:"semantic"`
}

// A barred is one locked match.
type barred struct {
	Name        string      `json:"name"`
	Server      string      `json:"server"`
	Description string      `json:"description"` // "" if it may not be shown
	Status      lock.Status `json:"status"`
	Note        string      `json:"note,omitempty"` // what the operator has to say
}

// remedies holds one text for each status that a search shows.
type remedies struct {
	ServerDisabled   string `json:"server_disabled,omitempty"`
	DisabledByConfig string `json:"disabled_by_config,omitempty"`
	DisabledByUser   string `json:"disabled_by_user,omitempty"`
	PendingApproval  string `json:"pending_approval,omitempty"`
	DisabledUnknown  string `json:"disabled_unknown,omitempty"`
}

// set gives the status its text.
func (r *remedies) set(s lock.Status, text string) {
	switch s {
	case lock.ServerDisabled:
		r.ServerDisabled = text
	case lock.DisabledByConfig:
		r.DisabledByConfig = text
	case lock.DisabledByUser:
		r.DisabledByUser = text
	case lock.PendingApproval:
		r.PendingApproval = text
	case lock.DisabledUnknown:
		r.DisabledUnknown = text
	case lock.None:
	}
}

// retrieved is the answer of retrieve_tools.
type retrieved struct {
	Tools       []found   `json:"tools"`
	Total       int       `json:"total"`
	Disabled    []barred  `json:"disabled,omitempty"`
	Remediation *remedies `json:"remediation,omitempty"`
	Notice      string    `json:"notice,omitempty"`
}

// retrieve answers retrieve_tools.
//
// Callable and locked tools are ranked apart, each with a limit and document
// frequencies of its own, so that neither moves the other. Without the flag the
// answer says of locked tools at most how many there are that match, if nothing callable
// does, or match better than everything callable.
func (s *Session) retrieve(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	a := readArguments(retrieveTools, raw, "query", "limit", "include_disabled", "detail", "read_only")
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
	index, opts := s.st.Catalog.Index(), search.Options{Lexical: s.st.Config.Gateway.Ranking == "lexical"}
	query := index.Query(text)
	open := index.Rank(query, callable, limit, opts)
	out := retrieved{Tools: make([]found, len(open.Hits)), Total: open.Total}
	for n, hit := range open.Hits {
		out.Tools[n] = s.found(hit, full)
	}
	nudge := ""
	switch {
	case withLocked:
		shut := index.Rank(query, locked, min(limit, maxDisabled), opts)
		out.Disabled, out.Remediation = s.barred(shut.Hits, full)
		if open.Total+shut.Total == 0 {
			out.Notice = s.absent()
		}
	case open.Total == 0:
		nudge = lockedMatches(index.Rank(query, locked, 0, opts).Total)
		out.Notice = joined(nudge, s.absent())
	case s.st.Config.Gateway.Notice == "best" && locked.Len() > 0:
		nudge = lockedBetter(index.Outranking(query, locked, callable, opts))
		out.Notice = nudge
	}
	s.g.o.Recorder.Discovery(ctx, withLocked, nudge != "")
	return s.own(out)
}

func (s *Session) found(hit search.Hit, full bool) found {
	t := s.view.Tool(hit.Doc)
	f := found{
		Name:        t.ID.String(),
		Server:      t.ID.Server,
		Signature:   t.Signature,
		Lossy:       t.Lossy,
		Description: tool.FirstSentence(t.Definition.Description),
		CallWith:    variant(s.view.Tier(hit.Doc)),
	}
	if full {
		f.Description, f.InputSchema = t.Definition.Description, t.Definition.InputSchema
		f.Score, f.ScoreParts = &hit.Score, &scoreParts{hit.Lexical, hit.Semantic}
	}
	return f
}

// barred lists locked matches, with one remedy for each status among them.
func (s *Session) barred(hits []search.Hit, full bool) ([]barred, *remedies) {
	if len(hits) == 0 {
		return nil, nil
	}
	var out []barred
	links := map[lock.Status]string{}
	for _, hit := range hits {
		id, status := s.view.ID(hit.Doc), s.view.Status(hit.Doc)
		text := s.view.Description(hit.Doc, status)
		if !full {
			text = tool.FirstSentence(text)
		}
		out = append(out, barred{
			Name: id.String(), Server: id.Server, Description: text, Status: status, Note: s.note(hit.Doc, status),
		})
		link := Link(s.g.o.BaseURL, id)
		if _, again := links[status]; again && link != "" {
			link = s.g.o.BaseURL + "/admin/tools?status=" + string(status)
		}
		links[status] = link
	}
	r := &remedies{}
	for status, link := range links {
		r.set(status, lock.Remediation(status, link))
	}
	return out, r
}

// note returns what the operator has to say of a denied tool.
func (s *Session) note(i int, status lock.Status) string {
	if status != lock.DisabledByConfig {
		return ""
	}
	return s.view.Verdict(i).Denial.Note()
}
