package console

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A textPair is one text of a definition, before and now.
type textPair struct {
	name, title string
	before, now string
	diff        func(before, now string) []review.Run
	lines       bool // diff compares lines, not words
}

// textNames has the texts of each view, and of "again", the changes since a person opened the page.
var textNames = map[tool.Kind]map[string][]string{
	tool.Tool: {
		"summary": {"description"}, "description": {"title", "description", "annotations"},
		"input": {"input"}, "output": {"output"}, "raw": {"raw"}, "again": {"description", "input"},
	},
	tool.Prompt: {
		"summary": {"description"}, "description": {"title", "description"},
		"arguments": {"arguments"}, "raw": {"raw"}, "again": {"description", "arguments"},
	},
	tool.Resource: {
		"summary": {"uri", "name", "description"}, "description": {"uri", "name", "title", "description", "mimeType", "annotations"},
		"raw": {"raw"}, "again": {"name", "description", "mimeType"},
	},
}

// textsOf returns the texts of a view.
func textsOf(view string, before, now tool.Definition) (out []textPair) {
	for _, name := range textNames[now.Kind][view] {
		out = append(out, textOf(name, before, now))
	}
	return out
}

// textOf returns the named text of two definitions.
func textOf(name string, before, now tool.Definition) textPair {
	lines := func(title string, before, now json.RawMessage) textPair {
		return textPair{name, title, indented(before), indented(now), review.Lines, true}
	}
	words := func(title, before, now string) textPair {
		return textPair{name, title, before, now, review.Words, false}
	}
	switch name {
	case "input":
		return lines("Input schema", before.InputSchema, now.InputSchema)
	case "output":
		return lines("Output schema", before.OutputSchema, now.OutputSchema)
	case "arguments":
		return lines("Arguments", before.Arguments, now.Arguments)
	case "annotations":
		return lines("Annotations", rawjson.Get(before.Raw, "annotations"), rawjson.Get(now.Raw, "annotations"))
	case "uri":
		if now.Template {
			return words("URI template", before.URI, now.URI)
		}
		return words("URI", before.URI, now.URI)
	case "name":
		return words("Name", before.Name, now.Name)
	case "mimeType":
		return words("Type", before.MIMEType, now.MIMEType)
	case "title":
		return words("Title", before.Title, now.Title)
	case "description":
		return words("Description", before.Description, now.Description)
	}
	return lines("Whole definition, in canonical form", before.Raw, now.Raw)
}

func indented(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return review.Indent(raw)
}

// argumentsText returns all arguments of a call in readable form. It keeps their order and their
// characters.
func argumentsText(raw json.RawMessage) string { return review.Readable(rawjson.Indent(raw, "", "  ")) }

// text serves one whole text of a definition as plain text, so that no browser runs it.
func (c *Console) text(w http.ResponseWriter, r *http.Request, id tool.ID) {
	t, err := c.o.Service.Tool(r.Context(), id)
	if err != nil {
		c.failed(w, r, "text", err)
		return
	}
	raw := t.Definition
	if r.URL.Query().Get("from") == "approved" && t.Approved != nil {
		raw = t.Approved
	}
	var names []string
	for _, v := range views[id.Kind] {
		for _, name := range textNames[id.Kind][v.View] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	of := r.URL.Query().Get("of")
	if !slices.Contains(names, of) {
		c.problem(w, r, http.StatusNotFound, "A definition has no such text; it has: "+
			text.List(names, len(names))+".")
		return
	}
	writeText(w, textOf(of, tool.Definition{}, tool.KeptItem(id.Kind, raw)).now)
}

// writeText writes a text in readable form.
func writeText(w http.ResponseWriter, s string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	_, _ = w.Write([]byte(review.Readable(s))) //nolint:gosec // G705: it is no HTML
}
