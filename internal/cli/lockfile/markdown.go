package lockfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// MaxMarkdown is the maximum length of the result of [Markdown], in bytes. GitHub allows 65,536
// characters in a comment, and the program that posts the comment may add text.
const MaxMarkdown = 65_000

const (
	maxTable  = 20_000 // bytes of the table
	maxCell   = 120    // characters of one text in a cell or a list
	leastPart = 600    // minimum for an item that is shown
	maxEnd    = 1_000  // for the text that says what is missing
)

// A Detail is a gateway's data about an item in addition to its hash.
type Detail struct {
	// the definition that was last approved at the gateway, if it is another one
	Before   json.RawMessage
	Known    tool.Hash       // of Before
	Now      json.RawMessage // the gateway's current definition; nil: none
	Findings []Finding       // in the current definition
	Decided  string          // who decided last at the gateway, and when
	Reason   string          // why the gateway has no definition to show
	Two      bool            // the approval takes two people
}

// A Finding is a fact in a definition that a reviewer should see.
type Finding struct {
	Code, Message string
	Severe        bool
}

// A Report is the input of [Markdown].
type Report struct {
	File    string // its name
	Gateway string // its address; "": a gateway in a folder
	Drifts  []Drift
	// Detail returns the details of an item. It is called only for the items that are shown.
	Detail func(tool.ID) Detail
	// See is the command that prints one whole item, without its id.
	See string
}

// The texts of each kind of difference: in the counts, above the items, and about the consequences.
var words = map[What]struct{ count, title, meaning string }{
	Unlisted: {
		"approved only at the gateway",
		"Approved at the gateway, not in the file",
		"Somebody approved this definition at the gateway. Take it into the file, or block it at the gateway.",
	},
	Changed:     {"changed", "Changed", "The file has another definition."},
	NotApproved: {"not approved", "In the file, not approved at the gateway", ""},
	New:         {"new", "New", "It waits at the gateway for somebody to approve it."},
	Removed:     {"removed", "Removed", ""},
	Pending: {
		"pending",
		"Waits, as the file says",
		"Merging the file approves exactly this definition, once `portcullis approvals apply` has run.",
	},
}

// Markdown returns the report for a pull request, a comment or a summary of GitHub. It has at most
// [MaxMarkdown] bytes, and says what it omits.
func Markdown(r Report) string {
	var out strings.Builder
	out.WriteString(r.heading())
	list := ordered(r.Drifts)
	out.WriteString(r.table(list))
	for n, d := range list {
		left := MaxMarkdown - maxEnd - out.Len()
		part := r.item(d, max(leastPart, left/(len(list)-n)))
		if len(part) > left {
			fmt.Fprintf(
				&out,
				"\n**%s not shown**: this text is cut at %d bytes. `portcullis approvals check` lists every one, and `%s ID` shows one whole.\n",
				text.Count(
					len(list)-n,
					"more item",
				)+map[bool]string{true: " is", false: " are"}[len(list)-n == 1],
				MaxMarkdown,
				r.See,
			)
			break
		}
		out.WriteString(part)
	}
	return out.String()
}

// fewItems is the maximum number of items that are sorted by server and name. More items may not
// all fit. Then the items of the servers alternate, so that a server with hundreds of changes
// leaves space for other servers.
const fewItems = 50

// ordered returns the drifts in the order of the output.
func ordered(drifts []Drift) []Drift {
	list, turns, turn := slices.Clone(drifts), map[string]int{}, map[tool.ID]int{}
	for _, d := range list {
		if len(list) > fewItems {
			key := string(d.What) + d.ID.Server
			turn[d.ID] = turns[key]
			turns[key]++
		}
	}
	slices.SortStableFunc(list, func(a, b Drift) int {
		return cmp.Or(
			cmp.Compare(slices.Index(whats(), a.What), slices.Index(whats(), b.What)),
			cmp.Compare(turn[a.ID], turn[b.ID]),
		)
	})
	return list
}

// typed returns an id in shell syntax, or a placeholder.
func typed(id tool.ID) string {
	if s := id.String(); id.Kind != tool.Resource {
		return s
	}
	return "ID"
}

// Counts returns the number of items of each kind of difference in words, or "" if there are none.
func Counts(drifts []Drift) string {
	n := map[What]int{}
	for _, d := range drifts {
		n[d.What]++
	}
	var parts []string
	for _, w := range whats() {
		if n[w] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[w], words[w].count))
		}
	}
	return strings.Join(parts, ", ")
}

func (r Report) heading() string {
	where := "the gateway"
	if r.Gateway != "" {
		where += " at " + code(r.Gateway, 200)
	}
	file, drift := code(r.File, 200), 0
	for _, d := range r.Drifts {
		if d.IsDrift() {
			drift++
		}
	}
	switch {
	case len(r.Drifts) == 0:
		return fmt.Sprintf(
			"## Approvals: no drift\n\n%s approves what %s has approved, and nothing waits.\n",
			file,
			where,
		)
	case drift == 0:
		return fmt.Sprintf(
			"## Approvals: %s\n\n%s and %s agree; what is marked as pending waits for this file to be merged and applied.\n",
			Counts(r.Drifts),
			file,
			where,
		)
	}
	return fmt.Sprintf(
		"## Approvals: %s\n\n%s and %s differ. `portcullis approvals write --pending` brings the file up to date; a merge and `portcullis approvals apply` then approve what the file says, and nothing else.\n",
		Counts(r.Drifts),
		file,
		where,
	)
}

// table returns one line for each item that fits.
func (r Report) table(list []Drift) string {
	if len(list) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n| | item | in the file | at the gateway | |\n|---|---|---|---|---|\n")
	for n, d := range list {
		row := fmt.Sprintf(
			"| %s | %s | %s | %s | %s |\n",
			words[d.What].count,
			code(d.ID.String(), maxCell),
			short(d.Listed),
			strings.TrimSpace(short(d.Current)+" "+d.standing()),
			code(d.Summary, maxCell),
		)
		if out.Len()+len(row) > maxTable {
			fmt.Fprintf(
				&out,
				"\n…and %s: `portcullis approvals check` lists every one.\n",
				text.Count(len(list)-n, "more line"),
			)
			break
		}
		out.WriteString(row)
	}
	return out.String()
}

// standing returns the state of the definition at the gateway.
func (d Drift) standing() string {
	return map[State]string{
		Approved: "approved", Waiting: "waits", Blocked: "blocked", Disabled: "disabled", Denied: "denied by a rule", Open: "callable without approval",
	}[d.Standing]
}

// short returns the first digits of a hash.
func short(h tool.Hash) string {
	if h == "" {
		return "–"
	}
	return "`" + text.Clip(string(h), 13) + "`"
}

// item returns one item in words, in about the given number of bytes.
func (r Report) item(d Drift, most int) string {
	about := r.Detail(d.ID)
	var out strings.Builder
	fmt.Fprintf(&out, "\n### %s: %s\n", words[d.What].title, code(d.ID.String(), 4*maxCell))
	if sentences := meaning(d, about); sentences != "" {
		out.WriteString("\n" + sentences + "\n")
	}
	if about.Decided != "" {
		fmt.Fprintf(&out, "\nLast decision at the gateway: %s.\n", code(about.Decided, maxCell))
	}
	out.WriteString(findings(about.Findings, most/3))
	rest := "The rest is left out: " + code(
		r.See+" "+typed(d.ID),
		2*maxCell+len(r.See),
	) + " shows all of it."
	b := body{out: &out, kind: d.ID.Kind, rest: rest, most: max(leastPart/2, most-out.Len()-200)}
	switch {
	case about.Now == nil && d.Summary != "":
		fmt.Fprintf(&out, "\nIts description began: %s\n", code(d.Summary, 2*maxCell))
	case about.Now == nil:
	case len(about.Now) > tool.MaxDefinition || len(about.Before) > tool.MaxDefinition:
		fmt.Fprintf(
			&out,
			"\nThe definition is longer than any that a gateway takes (%d KB), so it is not shown.\n",
			tool.MaxDefinition>>10,
		)
	case about.Before != nil:
		b.change(about.Before, about.Now)
	default:
		b.whole(about.Now)
	}
	return out.String()
}

// The consequences of a difference, by the state at the gateway: first if the gateway has another
// definition, then if it has not approved the definition of the file.
var (
	changedMeans = map[State]string{
		Approved: "Somebody approved the definition below at the gateway.",
		Waiting:  "The definition below waits at the gateway for somebody to approve it.",
		Blocked:  "The definition below is blocked at the gateway.",
		Disabled: "It is disabled at the gateway.",
		Open:     "The definition below is callable: the server needs no approval.",
		Denied:   "An operator's rule denies it, so nobody can approve the definition below.",
	}
	notApprovedMeans = map[State]string{
		Waiting:  "It waits at the gateway: `portcullis approvals apply` approves it.",
		Blocked:  "Somebody blocked this definition at the gateway, and `portcullis approvals apply` leaves it blocked: unblock it there, or take it out of the file.",
		Disabled: "Somebody disabled it at the gateway, and `portcullis approvals apply` leaves it disabled: enable it there, or take it out of the file.",
		Denied:   "An operator's rule in mcp_config.json or policy.cedar denies it, so nobody can approve it: change the rule, or take it out of the file.",
	}
)

// meaning returns the consequences of a difference.
func meaning(d Drift, about Detail) string {
	sentences := []string{words[d.What].meaning}
	// The approved definition is the definition in the file, so one text covers both changes.
	ofFile := d.What == Changed && about.Known == d.Listed
	switch d.What {
	case Removed:
		sentences = []string{
			cmp.Or(about.Reason, "The gateway does not have it any more."),
			"Nobody can call it, and `portcullis approvals write` takes it out of the file.",
		}
	case Changed:
		sentences = append(sentences, changedMeans[d.Standing])
		if about.Now != nil && !ofFile {
			sentences = append(sentences, "The gateway does not know the text of the file's "+
				"definition any more.")
		}
	case NotApproved:
		sentences = append(sentences, notApprovedMeans[d.Standing])
	case Unlisted, New, Pending:
	}
	if d.What != Removed && about.Reason != "" {
		sentences = append(sentences, about.Reason)
	}
	if about.Before != nil && !ofFile {
		sentences = append(sentences, "Another definition was approved before: this is what "+
			"changed since.")
	}
	if about.Two {
		sentences = append(
			sentences,
			"Approving it takes two people who sign in with the issuer: `apply` cannot.",
		)
	}
	return strings.TrimSpace(strings.Join(sentences, " "))
}

// findings returns the facts in a definition that a reviewer should see.
func findings(list []Finding, most int) string {
	var out strings.Builder
	severe := slices.ContainsFunc(list, func(f Finding) bool { return f.Severe })
	for n, f := range list {
		if n == 0 {
			out.WriteString("\n")
		}
		if out.Len() > most {
			fmt.Fprintf(&out, "- …and %s\n", text.Count(len(list)-n, "more finding"))
			break
		}
		mark := ""
		if f.Severe {
			mark = " **(severe)**"
		}
		fmt.Fprintf(&out, "- ⚠ %s%s: %s\n", code(f.Code, 40), mark, code(f.Message, 2*maxCell))
	}
	if severe {
		out.WriteString(
			"\nA definition with a severe finding is approved only if its entry in the file has a `note` that says why.\n",
		)
	}
	return out.String()
}

// A body is the part of an item that its server wrote.
type body struct {
	out  *strings.Builder
	kind tool.Kind
	rest string
	most int // bytes
}

// add adds a block with at most a share of the remaining space.
func (b *body) add(title, language, s string, share int) {
	if strings.TrimSpace(s) == "" {
		return
	}
	n := b.out.Len()
	fmt.Fprintf(
		b.out,
		"\n%s\n\n%s",
		title,
		block(language, s, b.rest, max(leastPart/4, b.most*share/100)),
	)
	b.most -= b.out.Len() - n
}

// whole shows a whole definition.
func (b *body) whole(now json.RawMessage) {
	d := tool.KeptItem(b.kind, now)
	b.add("Description:", "text", lines(d.Description), 50)
	b.items(review.Summarize(tool.Definition{}, d), "parameter", "argument")
	b.add("The definition without its description:", "json", lines(review.Indent(bare(now))), 100)
}

// change shows the change from one definition to another.
func (b *body) change(before, now json.RawMessage) {
	was, is := tool.KeptItem(b.kind, before), tool.KeptItem(b.kind, now)
	b.items(review.Summarize(was, is))
	if was.Description != is.Description {
		b.add(
			"Description, by words:",
			"diff",
			review.PlainWords(was.Description, is.Description),
			60,
		)
	}
	if x, y := review.Indent(bare(before)), review.Indent(bare(now)); x != y {
		b.add(
			"The definition without its description, by lines:",
			"diff",
			review.PlainLines(x, y),
			100,
		)
	}
}

// items lists changes. If only is not empty, it lists only these kinds.
func (b *body) items(c review.Change, only ...string) {
	n, before := b.out.Len(), "\n"
	for i, item := range c.Items {
		if len(only) > 0 && !slices.Contains(only, item.What) {
			continue
		}
		if b.out.Len()-n > b.most/3 {
			fmt.Fprintf(b.out, "- …and %s\n", text.Count(len(c.Items)-i+c.More, "change")+" more")
			break
		}
		what := map[string]string{"+": "new", "-": "gone", "~": "changed"}[item.Op]
		fmt.Fprintf(
			b.out,
			"%s- %s %s",
			before,
			what,
			code(strings.TrimSpace(item.What+" "+item.Path), maxCell),
		)
		if before = ""; item.Text != "" {
			fmt.Fprintf(b.out, ": %s", code(item.Text, 2*maxCell))
		}
		if item.Risk != "" {
			fmt.Fprintf(b.out, " – **%s**", item.Risk)
		}
		b.out.WriteString("\n")
	}
	b.most -= b.out.Len() - n
}

// bare returns a definition without its description, which is shown in words.
func bare(definition json.RawMessage) json.RawMessage {
	o, err := rawjson.Split(definition, rawjson.Lenient)
	if err != nil {
		return definition
	}
	o.Delete("description")
	return o.Bytes()
}
