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

// MaxMarkdown is how many bytes [Markdown] returns at most. GitHub takes 65,536 characters for a comment,
// of which whoever posts it may want some.
const MaxMarkdown = 65_000

const (
	maxTable  = 20_000 // bytes of the table
	maxCell   = 120    // characters of one text in a cell or a list
	leastPart = 600    // bytes that an item is shown with, if it is shown at all
	maxEnd    = 1_000  // bytes for what is said when not everything is shown
)

// A Detail is what a gateway knows of an item beside its hash.
type Detail struct {
	Before   json.RawMessage // the definition that was approved last at the gateway, if it is another one
	Known    tool.Hash       // of Before
	Now      json.RawMessage // the definition that the gateway has; nil: it does not have the item
	Findings []Finding       // in the definition of now
	Decided  string          // who decided last at the gateway, and when
	Reason   string          // why the gateway has no definition to show
	Two      bool            // approving the definition takes two people
}

// A Finding is something in a definition that a reviewer should see.
type Finding struct {
	Code, Message string
	Severe        bool
}

// A Report is what [Markdown] shows.
type Report struct {
	File    string // its name
	Gateway string // its address; "": one in a folder
	Drifts  []Drift
	// Detail returns what is known of an item; it is asked about those that are shown alone.
	Detail func(tool.ID) Detail
	// See is the command that prints all of one item, but for its id.
	See string
}

// What is said of each way to differ: in the counts, over the items, and of what follows from it.
var words = map[What]struct{ count, title, meaning string }{
	Unlisted:    {"approved only at the gateway", "Approved at the gateway, not in the file", "Somebody approved this definition at the gateway. Take it into the file, or block it at the gateway."},
	Changed:     {"changed", "Changed", "The file has another definition."},
	NotApproved: {"not approved", "In the file, not approved at the gateway", ""},
	New:         {"new", "New", "It waits at the gateway for somebody to approve it."},
	Removed:     {"removed", "Removed", ""},
	Pending:     {"pending", "Waits, as the file says", "Merging the file approves exactly this definition, once `portcullis approvals apply` has run."},
}

// Markdown returns the report for a pull request, a comment or a summary of GitHub. It is at most
// [MaxMarkdown] bytes long, and says what is left out.
func Markdown(r Report) string {
	var out strings.Builder
	out.WriteString(r.heading())
	list := ordered(r.Drifts)
	out.WriteString(r.table(list))
	for n, d := range list {
		left := MaxMarkdown - maxEnd - out.Len()
		part := r.item(d, max(leastPart, left/(len(list)-n)))
		if len(part) > left {
			fmt.Fprintf(&out, "\n**%s not shown**: this text is cut at %d bytes. `portcullis approvals check` lists every one, and `%s ID` shows one whole.\n",
				text.Count(len(list)-n, "more item")+map[bool]string{true: " is", false: " are"}[len(list)-n == 1], MaxMarkdown, r.See)
			break
		}
		out.WriteString(part)
	}
	return out.String()
}

// fewItems are shown by server and name. Where there are more, which may not all be shown, each server
// has its turn: one that changes hundreds of its tools leaves room for what others changed.
const fewItems = 50

// ordered returns the drifts in the order in which they are shown.
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
		return cmp.Or(cmp.Compare(slices.Index(whats(), a.What), slices.Index(whats(), b.What)), cmp.Compare(turn[a.ID], turn[b.ID]))
	})
	return list
}

// typed returns an id as it may be typed at a shell, or what stands for it.
func typed(id tool.ID) string {
	if s := id.String(); id.Kind != tool.Resource {
		return s
	}
	return "ID"
}

// Counts returns how many items differ in which way, in words; "" if none does.
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
		return fmt.Sprintf("## Approvals: no drift\n\n%s approves what %s has approved, and nothing waits.\n", file, where)
	case drift == 0:
		return fmt.Sprintf("## Approvals: %s\n\n%s and %s agree; what is marked as pending waits for this file to be merged and applied.\n", Counts(r.Drifts), file, where)
	}
	return fmt.Sprintf("## Approvals: %s\n\n%s and %s differ. `portcullis approvals write --pending` brings the file up to date; a merge and `portcullis approvals apply` then approve what the file says, and nothing else.\n", Counts(r.Drifts), file, where)
}

// table returns one line for each item, as far as there is room.
func (r Report) table(list []Drift) string {
	if len(list) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n| | item | in the file | at the gateway | |\n|---|---|---|---|---|\n")
	for n, d := range list {
		row := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", words[d.What].count, code(d.ID.String(), maxCell), short(d.Listed), strings.TrimSpace(short(d.Current)+" "+d.standing()), code(d.Summary, maxCell))
		if out.Len()+len(row) > maxTable {
			fmt.Fprintf(&out, "\n…and %s: `portcullis approvals check` lists every one.\n", text.Count(len(list)-n, "more line"))
			break
		}
		out.WriteString(row)
	}
	return out.String()
}

// standing says how the definition stands at the gateway.
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

// item returns one item in words, in about so many bytes.
func (r Report) item(d Drift, most int) string {
	about := r.Detail(d.ID)
	var out strings.Builder
	fmt.Fprintf(&out, "\n### %s: %s\n", words[d.What].title, code(d.ID.String(), 4*maxCell))
	if said := meaning(d, about); said != "" {
		out.WriteString("\n" + said + "\n")
	}
	if about.Decided != "" {
		fmt.Fprintf(&out, "\nLast decision at the gateway: %s.\n", code(about.Decided, maxCell))
	}
	out.WriteString(findings(about.Findings, most/3))
	rest := "The rest is left out: " + code(r.See+" "+typed(d.ID), 2*maxCell+len(r.See)) + " shows all of it."
	b := body{out: &out, kind: d.ID.Kind, rest: rest, most: max(leastPart/2, most-out.Len()-200)}
	switch {
	case about.Now == nil && d.Summary != "":
		fmt.Fprintf(&out, "\nIts description began: %s\n", code(d.Summary, 2*maxCell))
	case about.Now == nil:
	case len(about.Now) > tool.MaxDefinition || len(about.Before) > tool.MaxDefinition:
		fmt.Fprintf(&out, "\nThe definition is longer than any that a gateway takes (%d KB), so it is not shown.\n", tool.MaxDefinition>>10)
	case about.Before != nil:
		b.change(about.Before, about.Now)
	default:
		b.whole(about.Now)
	}
	return out.String()
}

// What follows where the gateway's definition is another one, by how that stands, and where the file
// approves what is not approved there.
var (
	changedMeans = map[State]string{
		Approved: "Somebody approved the one below at the gateway.",
		Waiting:  "The one below waits at the gateway for somebody to approve it.",
		Blocked:  "The one below is blocked at the gateway.",
		Disabled: "It is disabled at the gateway.",
		Open:     "The one below is callable: the server needs no approval.",
		Denied:   "An operator's rule denies it, so nobody can approve the one below.",
	}
	notApprovedMeans = map[State]string{
		Waiting:  "It waits at the gateway: `portcullis approvals apply` approves it.",
		Blocked:  "Somebody blocked this definition at the gateway, and `portcullis approvals apply` leaves it blocked: unblock it there, or take it out of the file.",
		Disabled: "Somebody disabled it at the gateway, and `portcullis approvals apply` leaves it disabled: enable it there, or take it out of the file.",
		Denied:   "An operator's rule in mcp_config.json or policy.cedar denies it, so nobody can approve it: change the rule, or take it out of the file.",
	}
)

// meaning says what follows from a difference.
func meaning(d Drift, about Detail) string {
	said := []string{words[d.What].meaning}
	ofFile := d.What == Changed && about.Known == d.Listed // what changed since is what changed since the file
	switch d.What {
	case Removed:
		said = []string{cmp.Or(about.Reason, "The gateway does not have it any more."), "Nobody can call it, and `portcullis approvals write` takes it out of the file."}
	case Changed:
		said = append(said, changedMeans[d.Standing])
		if about.Now != nil && !ofFile {
			said = append(said, "The gateway does not know the text of the file's definition any more.")
		}
	case NotApproved:
		said = append(said, notApprovedMeans[d.Standing])
	case Unlisted, New, Pending:
	}
	if d.What != Removed && about.Reason != "" {
		said = append(said, about.Reason)
	}
	if about.Before != nil && !ofFile {
		said = append(said, "Another definition was approved before: this is what changed since.")
	}
	if about.Two {
		said = append(said, "Approving it takes two people who sign in with the issuer: `apply` cannot.")
	}
	return strings.TrimSpace(strings.Join(said, " "))
}

// findings returns what a reviewer should see in a definition.
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
		out.WriteString("\nA definition with a severe finding is approved only if its entry in the file has a `note` that says why.\n")
	}
	return out.String()
}

// A body is what of an item its servers wrote.
type body struct {
	out  *strings.Builder
	kind tool.Kind
	rest string
	most int // bytes
}

// add adds a block, which takes at most a share of what room is left.
func (b *body) add(title, language, s string, share int) {
	if strings.TrimSpace(s) == "" {
		return
	}
	n := b.out.Len()
	fmt.Fprintf(b.out, "\n%s\n\n%s", title, block(language, s, b.rest, max(leastPart/4, b.most*share/100)))
	b.most -= b.out.Len() - n
}

// whole shows all of a definition.
func (b *body) whole(now json.RawMessage) {
	d := tool.KeptItem(b.kind, now)
	b.add("Description:", "text", lines(d.Description), 50)
	b.items(review.Summarize(tool.Definition{}, d), "parameter", "argument")
	b.add("The definition without its description:", "json", lines(review.Indent(bare(now))), 100)
}

// change shows how a definition became another one.
func (b *body) change(before, now json.RawMessage) {
	was, is := tool.KeptItem(b.kind, before), tool.KeptItem(b.kind, now)
	b.items(review.Summarize(was, is))
	if was.Description != is.Description {
		b.add("Description, by words:", "diff", review.PlainWords(was.Description, is.Description), 60)
	}
	if x, y := review.Indent(bare(before)), review.Indent(bare(now)); x != y {
		b.add("The definition without its description, by lines:", "diff", review.PlainLines(x, y), 100)
	}
}

// items lists changes; those of some kinds alone, if any are named.
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
		fmt.Fprintf(b.out, "%s- %s %s", before, what, code(strings.TrimSpace(item.What+" "+item.Path), maxCell))
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

// bare returns a definition without its description, which is shown by words.
func bare(definition json.RawMessage) json.RawMessage {
	o, err := rawjson.Split(definition, rawjson.Lenient)
	if err != nil {
		return definition
	}
	o.Delete("description")
	return o.Bytes()
}
