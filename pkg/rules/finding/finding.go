// Package finding scans the definition of a tool, a prompt or a resource for passages that a
// reviewer should see before approving it. Examples are hidden characters, text that gives the
// model orders, paths to keys, and tools of other servers.
//
// A finding points to a place in a text and is no verdict: rules cannot name every wording, and
// most definitions with findings are honest. A finding is severe only if an honest definition has
// no reason for it, because reviewers who see warnings everywhere ignore them.
//
// The package is pure: the same definitions, names and rules give the same findings.
package finding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Version is the version of the rules. Findings of another version are outdated and have to be
// computed again.
const Version = 1

// A Finding is one thing in a definition that a reviewer should look at.
type Finding struct {
	Code   string `json:"code"` // one of [Codes], or [More]
	Severe bool   `json:"severe,omitempty"`
	Where  string `json:"where,omitempty"`   // "description", "inputSchema.properties.path.description", …; "": the whole definition
	Name   bool   `json:"is_name,omitempty"` // the text is the name of the member at Where, not its value
	From   int    `json:"from"`              // byte offset in the unescaped value or name
	To     int    `json:"to"`
	Text   string `json:"text,omitempty"` // the matched text, at most 80 bytes, hidden characters as numbers
}

// More is the code of the last finding if Scan found more than it lists. Its Text is the number of
// the findings that are not listed.
const More = "more"

const (
	maxFindings = 20 // of one tool
	maxOfKind   = 4  // of one code
	maxText     = 80 // bytes
	maxWhere    = 160
	maxName     = 40
)

// A kind describes the findings of one code.
type kind struct {
	code   string
	severe bool
	says   string // the sentence about the definition; %s is the quoted text
}

// The codes, severe ones first.
const (
	hidden       = "hidden"
	bidi         = "bidi"
	tag          = "tag"
	override     = "override"
	conceal      = "conceal"
	secrets      = "secrets"
	conversation = "conversation"
	beforeTools  = "before_tools"
	governs      = "governs"
	redirect     = "redirect"
	unasked      = "unasked"
	remote       = "remote"
	nested       = "nested"
	imperative   = "imperative"
	otherTool    = "other_tool"
	sibling      = "sibling"
	keyPath      = "key_path"
	context      = "context"
	markup       = "markup"
	letters      = "letters"
	link         = "url"
	encoded      = "encoded"
	size         = "size"
	script       = "script"
)

var kinds = []kind{
	{hidden, true, "has characters that a person does not see: %s"},
	{bidi, true, "has characters that change the direction of the text, so that people read a different text: %s"},
	{tag, true, "has a tag that poses as an instruction of the system: %s"},
	{override, true, "tells the model to ignore its instructions: %s"},
	{conceal, true, "tells the model to keep something from the user: %s"},
	{secrets, true, "tells the model to read or pass on a file that holds keys: %s"},
	{conversation, true, "tells the model to pass on the conversation, or its instructions: %s"},
	{beforeTools, true, "tells the model what to do before it uses other tools: %s"},
	{governs, true, "tells the model how to use a tool of another server: %s"},
	{redirect, true, "tells the model to send data to an address: %s"},
	{unasked, true, "tells the model not to ask for approval: %s"},
	{remote, true, "has a schema that refers to another address: %s"},
	{nested, true, "is nested so deeply that nobody can approve or call it: %s"},
	{imperative, false, "gives the model an order: %s"},
	{otherTool, false, "names a tool of another server: %s"},
	{sibling, false, "names another tool of its server: %s"},
	{keyPath, false, "names a file that holds keys: %s"},
	{context, false, "asks for the model's instructions or conversation: %s"},
	{markup, false, "has markup that a page might not show: %s"},
	{letters, false, "mixes letters of two scripts in one word: %s"},
	{link, false, "has a URL: %s"},
	{encoded, false, "has a long run of encoded characters: %s"},
	{size, false, "is much longer than the approved definition: %s"},
	{script, false, "has text in a script that the approved definition does not have: %s"},
}

// Codes returns the codes of all findings, severe ones first.
func Codes() []string {
	codes := make([]string, len(kinds))
	for i, k := range kinds {
		codes[i] = k.code
	}
	return codes
}

// Message returns the finding as one sentence for a person.
func (f Finding) Message() string {
	if f.Code == More {
		n, _ := strconv.Atoi(f.Text) // written by Scan
		return text.Count(n, "more finding") + ", not listed"
	}
	for _, k := range kinds {
		if k.code == f.Code {
			return fmt.Sprintf(k.says, "“"+f.Text+"”")
		}
	}
	return f.Code + ": “" + f.Text + "”"
}

// Severe reports whether one of the findings is severe.
func Severe(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severe })
}

// Scan returns at most 20 findings in d, severe findings first. If there are more, the last one has
// the code [More] and their number. before is the definition that was approved last, or nil if
// there is none. names has the tools of all servers, and the name of the server that d belongs to.
func Scan(d tool.Definition, before *tool.Definition, names Names) []Finding {
	s := newScanner(d, names)
	s.place = "name"
	s.spoken(d.Name)
	s.read(d.Raw)
	s.place = "inputSchema"
	s.references(d.InputSchema)
	s.place = "outputSchema"
	s.references(d.OutputSchema)
	s.place = ""
	if depth := rawjson.Depth(d.Raw); depth > tool.MaxDepth {
		s.add(nested, 0, 0, fmt.Sprintf("%d levels, at most %d are allowed", depth, tool.MaxDepth))
	}
	if before != nil {
		s.compare(before.Raw)
	}
	return s.result()
}

// add notes a finding in the current text.
func (s *scanner) add(code string, from, to int, quote string) {
	n := 0
	for i := range s.found {
		if f := &s.found[i]; f.Code == code {
			if f.Text == quote {
				return // one finding is enough
			}
			n++
		}
	}
	severe := slices.IndexFunc(kinds, func(k kind) bool { return k.code == code && k.severe }) >= 0
	if n >= maxOfKind {
		s.more++
		return
	}
	s.found = append(s.found, Finding{code, severe, s.where(), s.isName, from, to, quote})
}

// result returns the findings, severe findings first.
func (s *scanner) result() []Finding {
	slices.SortStableFunc(s.found, func(a, b Finding) int {
		switch {
		case a.Severe == b.Severe:
			return 0
		case a.Severe:
			return -1
		}
		return 1
	})
	if n := len(s.found) - maxFindings + 1; n > 0 && (n > 1 || s.more > 0) {
		s.more += n
		s.found = s.found[:maxFindings-1]
	}
	if s.more > 0 {
		s.found = append(s.found, Finding{Code: More, Text: strconv.Itoa(s.more)})
	}
	return s.found
}

// show returns the start of s in printable form.
func show(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*maxText)], "")
	s = strings.Join(strings.Fields(text.Reveal(s)), " ")
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText-len("…")], "") + "…"
}
