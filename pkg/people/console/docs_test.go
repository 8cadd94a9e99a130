package console_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An openAPI is the part of the API's document that docs/http-api.md shows.
type openAPI struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Summary    string
	Parameters []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	}
	RequestBody struct{ Content map[string]content }
	Responses   map[string]struct {
		Description string
		Content     map[string]content
	}
}

type content struct{ Schema schema }

type schema struct {
	Ref              string `json:"$ref"`
	Type             any    // a name, or several
	Format           string
	Description      string
	Enum             []any
	Items            *schema
	Properties       map[string]schema
	Required         []string
	Additional       json.RawMessage `json:"additionalProperties"`
	Minimum, Maximum *float64
	MaxLength        *int
	Default          any
}

const apiPage = "../../../docs/http-api.md"

// TestHTTPPage generates the operations of docs/http-api.md from the API's own document, and their
// roles from the table of TestAccess.
func TestHTTPPage(t *testing.T) {
	h, all := newStage(t), rows()
	doc := require.JSON[openAPI](t, h.Send("/admin/openapi.json", "").Body)
	var index, operations strings.Builder
	index.WriteString("| request | role | what it does |\n|---|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		// prompts and resources have the operations of tools
		kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/admin/"), "/")
		if kind == "prompts" || kind == "resources" {
			continue
		}
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			o, name := doc.Paths[path][method], strings.ToUpper(method)+" "+path
			r, ok := all[name]
			if !ok {
				t.Errorf("rows has no row for %s", name)
			}
			fmt.Fprintf(&index, "| [`%s`](#%s) | %s | %s |\n",
				name, anchor(name), r.who(), cell(o.Summary))
			operations.WriteString(doc.describe(name, o, r))
		}
	}
	var objects strings.Builder
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		if strings.HasSuffix(name, "InputBody") {
			continue // the operation has its fields
		}
		fmt.Fprintf(&objects, "### Object %s\n\n", name)
		objects.WriteString(doc.Components.Schemas[name].fields())
	}
	golden.Parts(t, apiPage, map[string]string{
		"index": index.String(), "operations": operations.String(), "objects": objects.String(),
	})
}

// fields returns a table of an object's fields, and a list of the fields that need no explanation.
func (s schema) fields() string {
	var table strings.Builder
	var others []string
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		kind := cmp.Or(p.kind(), "any value")
		if p.Description == "" {
			others = append(others, "`"+key+"` "+kind)
			continue
		}
		if table.Len() == 0 {
			table.WriteString("| field | type | what it contains |\n|---|---|---|\n")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", key, kind, cell(p.Description))
	}
	if table.Len() > 0 {
		table.WriteString("\n")
	}
	if len(others) > 0 {
		more := "Fields: "
		if table.Len() > 0 {
			more = "Other fields: "
		}
		table.WriteString(golden.Wrap(more+strings.Join(others, "; ")+".") + "\n")
	}
	return table.String()
}

// who returns the role of a row in words.
func (r row) who() string {
	switch {
	case r.own:
		return "the agent's user"
	case r.signed:
		return "everybody with a credential"
	case r.server != "":
		return r.need.String() + " of the server"
	}
	return r.need.String()
}

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	heading = strings.ReplaceAll(strings.ToLower(heading), " ", "-")
	return regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(heading, "")
}

// cell returns a text for a cell of a table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// describe returns the section of an operation.
func (d openAPI) describe(name string, o operation, r row) string {
	var b strings.Builder
	about := golden.Wrap(strings.TrimSuffix(o.Summary, ".") + ".")
	fmt.Fprintf(&b, "### %s\n\n%s\n", name, about)
	facts := "Role: " + r.who() + "."
	var errors []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		answer := o.Responses[status]
		if n, err := strconv.Atoi(status); err == nil && n >= 400 {
			errors = append(errors, status)
			continue
		}
		about = answer.Description
		for media, c := range answer.Content {
			if about = c.Schema.kind(); media != "application/json" && about == "" {
				about = cmp.Or(answer.Description, media)
			}
		}
		if status != "default" {
			facts += " Answer " + status + ": " + cell(about) + "."
		}
	}
	if len(errors) > 0 {
		facts += " Errors: " + strings.Join(errors, ", ") + "."
	}
	b.WriteString(golden.Wrap(facts))
	var fields strings.Builder
	for _, p := range o.Parameters {
		p.Schema.Description = cmp.Or(p.Description, p.Schema.Description)
		p.Schema.row(&fields, p.Name, p.In, p.Required)
	}
	body := d.Components.Schemas[lastPart(o.RequestBody.Content["application/json"].Schema.Ref)]
	for _, key := range slices.Sorted(maps.Keys(body.Properties)) {
		p := body.Properties[key]
		p.row(&fields, key, "body", slices.Contains(body.Required, key))
	}
	if fields.Len() > 0 {
		fmt.Fprintf(&b, "\n| field | in | values | what it does |\n|---|---|---|---|\n%s", &fields)
	}
	b.WriteString("\n")
	return b.String()
}

func (s schema) row(b *strings.Builder, name, in string, required bool) {
	values := s.kind()
	switch {
	case required:
		values += "; required"
	case s.Default != nil:
		values += fmt.Sprintf("; default `%v`", s.Default)
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, in, values, cell(s.Description))
}

// kind returns the type and the limits of a value.
func (s schema) kind() string {
	var list []string
	for _, v := range s.Enum {
		list = append(list, fmt.Sprintf("`%v`", v))
	}
	switch {
	case s.Ref != "":
		name := lastPart(s.Ref)
		return fmt.Sprintf("[%s](#object-%s)", name, strings.ToLower(name))
	case len(list) == len(decide.Codes()):
		return "one of the [codes](#errors)"
	case len(list) > 0:
		return strings.Join(list, ", ")
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case s.Type == nil:
		return ""
	}
	kind := fmt.Sprint(s.Type)
	if of, ok := s.Type.([]any); ok {
		kind = fmt.Sprint(of[0])
	}
	var of schema
	switch {
	case kind == "object" && json.Unmarshal(s.Additional, &of) == nil && of.kind() != "":
		return "object of " + of.kind()
	case s.Format == "date-time":
		return "time"
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %v to %v", kind, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s from %v", kind, *s.Minimum)
	case s.MaxLength != nil:
		return fmt.Sprintf("%s, at most %d characters", kind, *s.MaxLength)
	}
	return kind
}

func lastPart(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }
