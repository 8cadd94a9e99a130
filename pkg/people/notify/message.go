package notify

import (
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A message is the text of an event for people: a line, and a link to the page.
type message struct {
	subject string // ASCII, without names
	line    []word
	button  string // what the link opens, in one or two words
	link    string // "": the gateway does not know its own address
}

// A word is a part of a line: the gateway's own text, or a name that others chose.
type word struct {
	text string
	name bool
}

const (
	shownName = 80   // characters of a name in a line
	maxLine   = 2000 // bytes of item names in a line; Slack accepts 3,000 characters
)

// messageOf returns the text of an event. base is the gateway's public address.
func messageOf(e Event, base string) message {
	m := message{subject: "Portcullis: " + subjectOf(e), line: lineOf(e), button: "Open"}
	switch e.Kind {
	case Changed, New:
		m.button = "Review"
	case RequestMade:
		m.button = "Decide"
	case SignInEnded:
		m.button = "Sign in"
	}
	if base != "" {
		m.link = base + pathOf(e)
	}
	return m
}

// pathOf returns the path of the event's page, or /admin if the event's path is not a path of the
// console.
func pathOf(e Event) string {
	p := e.Path
	if p != "/admin" && !strings.HasPrefix(p, "/admin/") && !strings.HasPrefix(p, "/admin?") || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>|"\`, r) }) {
		return "/admin"
	}
	return p
}

func subjectOf(e Event) string {
	switch e.Kind {
	case Changed:
		return "a server changed"
	case New:
		return "a server lists something new"
	case RequestMade:
		return "a request waits for a decision"
	case Decided:
		return "a request was decided"
	case ServerDown:
		return "a server is down"
	case ConfigRefused:
		return "a file is refused"
	case SignInEnded:
		return "a sign-in at a server ended"
	case Test:
		return "a test message"
	}
	return "news"
}

func lineOf(e Event) []word {
	switch e.Kind {
	case Changed:
		return append([]word{own("Server "), named(e.Server), own(" changed " + e.count("definition") + ": ")}, append(e.items(), e.about())...)
	case New:
		return append([]word{own("Server "), named(e.Server), own(" lists " + e.count("new item") + ": ")}, append(e.items(), e.about())...)
	case RequestMade:
		return requestLine(e)
	case Decided:
		return decisionLine(e)
	case ServerDown:
		return serverDownLine(e)
	case SignInEnded:
		return []word{
			own("The gateway's sign-in at server "), named(e.Server), own(" has ended: "),
			named(e.Reason), own(". Its tools stay listed, and their calls fail until an operator signs in again."),
		}
	case Test:
		end := own(" sent. Nothing waits for you.")
		return []word{own("This is a test message that "), named(e.By), end}
	case ConfigRefused:
		why := " is refused: " + text.Count(max(e.Faults, 1), "fault")
		if e.Stays {
			return []word{own("The file "), named(e.File), own(why + ". An earlier version stays in use.")}
		}
		return []word{own("The file "), named(e.File), own(why + ". None is in use, so nothing can be called.")}
	}
	return []word{own("Something happened.")}
}

func requestLine(e Event) []word {
	if e.Waiting > 0 {
		return []word{own(strconv.Itoa(e.Waiting) + " requests wait for a decision.")}
	}
	verb := " asks for "
	if e.OneCall {
		verb = " wants to make one call, which waits until it is confirmed: "
	}
	line := append([]word{own("Agent "), named(e.Agent), own(verb)}, e.items()...)
	if e.By != "" {
		line = append(line, own(", asked by "), named(e.By))
	}
	return append(line, e.about())
}

func decisionLine(e Event) []word {
	who, agent, items := named(e.By), named(e.Agent), e.items()
	if e.By == "" {
		who = own("Somebody")
	}
	if e.Agent == "" {
		agent = own("that asked")
	}
	var line []word
	switch e.Verdict {
	case "approved":
		line = append(append([]word{who, own(" approved ")}, items...), own(" for all agents; agent "), agent, own(" had asked"))
	case "allowed":
		line = append([]word{who, own(" allowed agent "), agent, own(" for a time to use ")}, items...)
	case "confirmed":
		line = append(append([]word{who, own(" confirmed one call of ")}, items...), own(" by agent "), agent)
	case "declined":
		line = append(append([]word{who, own(" declined ")}, items...), own(" for agent "), agent)
	case "revoked":
		line = append([]word{who, own(" revoked what agent "), agent, own(" was allowed to use: ")}, items...)
	default:
		line = append(append([]word{who, own(" decided about ")}, items...), own(" for agent "), agent)
	}
	if e.Waiting > 1 {
		line = append(line, own(", together with "+text.Count(e.Waiting-1, "more request")))
		var ids []string
		for _, id := range e.Also {
			ids = append(ids, requestID(id))
		}
		if ids != nil {
			line = append(line, own(": "+strings.Join(ids, ", ")))
		}
	}
	return append(line, e.about())
}

func serverDownLine(e Event) []word {
	line := []word{own("Server "), named(e.Server), own(" no longer loads: ")}
	status := string(e.Status)
	if e.Reason != "" {
		status += ", " + e.Reason
	}
	return append(line, named(status), own(". Its last known tools stay listed."))
}

// about ends a line with the id of the request, and with the tier and the findings of the items.
func (e Event) about() word {
	var parts []string
	if e.Request != "" {
		parts = append(parts, requestID(e.Request))
	}
	if tier, err := tool.ParseTier(e.Tier); err == nil {
		found := "no findings"
		if e.Findings > 0 {
			found = text.Count(e.Findings, "finding")
		}
		parts = append(parts, "tier "+tier.String()+", "+found)
	}
	if parts == nil {
		return own(".")
	}
	return own(" (" + strings.Join(parts, "; ") + ").")
}

// requestID returns id without the characters that no id has.
func requestID(id string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", r) {
			return r
		}
		return -1
	}, text.Clip(id, shownName))
}

// count returns how many items there are, with a noun.
func (e Event) count(noun string) string { return text.Count(len(e.Items)+e.More, noun) }

// items lists the names of the items, as many as fit.
func (e Event) items() (words []word) {
	if len(e.Items)+e.More == 0 {
		return []word{own("something")}
	}
	room := maxLine
	for i, id := range e.Items {
		w := named(clippedID(id))
		if room -= len(markWord(w)) + len(", "); room < 0 && i > 0 {
			break
		}
		if i > 0 {
			words = append(words, own(", "))
		}
		words = append(words, w)
	}
	if more := len(e.Items) + e.More - (len(words)+1)/2; more > 0 {
		words = append(words, own(" and "+strconv.Itoa(more)+" more"))
	}
	return words
}

// clippedID returns the id of an item with long URIs clipped.
func clippedID(id tool.ID) string { return text.Clip(id.String(), shownName) }

func own(s string) word { return word{text: s} }

func named(s string) word { return word{text.Clip(text.Reveal(s), shownName), true} }

// plain returns the line as plain text, for example for e-mail. It changes addresses in names so
// that no mail program turns them into links.
func (m message) plain() string {
	var out strings.Builder
	for _, w := range m.line {
		if w.name {
			w.text = `"` + strings.NewReplacer("://", "[:]//", `"`, "'").Replace(w.text) + `"`
		}
		out.WriteString(w.text)
	}
	return out.String()
}

// slackMarkup returns the line in Slack's markup. Names are code, which has no links, mentions or
// formats.
func (m message) slackMarkup() string {
	var out strings.Builder
	for _, w := range m.line {
		out.WriteString(markWord(w))
	}
	return out.String()
}

func markWord(w word) string {
	s := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(w.text)
	if w.name {
		s = "`" + strings.ReplaceAll(s, "`", "'") + "`"
	}
	return s
}
