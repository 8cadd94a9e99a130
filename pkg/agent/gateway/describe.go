package gateway

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

const maxNames = 10

// A toolEntry is one tool in the answer of describe_tools: a callable tool with its definition, or
// a locked tool with the way to unlock it.
type toolEntry struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Status      lock.Status     `json:"status,omitempty"`
	Description *string         `json:"description,omitempty"`
	Remediation string          `json:"remediation,omitempty"`
	Note        string          `json:"note,omitempty"`
	Link        string          `json:"link,omitempty"`
	CallWith    string          `json:"call_with,omitempty"`
	Confirm     bool            `json:"confirm,omitempty"` // each call needs a person
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// describe answers describe_tools.
func (s *Session) describe(r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "names")
	names := a.names("names", maxNames)
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	out := struct {
		Tools    []toolEntry `json:"tools"`
		NotFound []string    `json:"not_found"`
	}{[]toolEntry{}, []string{}}
	for _, name := range names {
		i, ok := s.findNamed(name)
		if only, isAppOnly := s.findAppOnly(name); isAppOnly {
			id := s.view.ID(only)
			entry := toolEntry{Name: id.String(), Server: id.Server, Note: appOnlyText(id)}
			out.Tools = append(out.Tools, entry)
			continue
		}
		if !ok {
			out.NotFound = append(out.NotFound, text.Clip(name, maxEcho))
			continue
		}
		out.Tools = append(out.Tools, s.toolEntry(i))
	}
	return s.answer(out)
}

func (s *Session) toolEntry(i int) toolEntry {
	id, status := s.view.ID(i), s.view.Status(i)
	d := toolEntry{Name: id.String(), Server: id.Server}
	if status == lock.None {
		t := s.view.Tool(i)
		d.CallWith, d.Confirm = variant(s.view.Tier(i)), s.view.Confirmed().Has(i)
		d.Definition = agentDefinition(t.Definition, "", s.view.Hints(i))
		return d
	}
	l := s.lockInfo(i, status, s.view.Note(i, status))
	text := s.view.Description(i, status)
	d.Status, d.Description, d.Remediation, d.Note, d.Link = status, &text, l.Remediation, l.Note, l.Link
	return d
}
