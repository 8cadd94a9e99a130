package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A listOf is one of the lists that a server may have.
type listOf struct {
	name     string // of the outcome's lists; "": the tools
	method   string
	member   string // of the result
	kind     tool.Kind
	template bool
}

var (
	listOfTools = listOf{"", mcp.MethodListTools, "tools", tool.Tool, false}
	otherLists  = []listOf{
		{outcome.ListPrompts, mcp.MethodListPrompts, "prompts", tool.Prompt, false},
		{outcome.ListResources, mcp.MethodListResources, "resources", tool.Resource, false},
		{outcome.ListTemplates, mcp.MethodListTemplates, "resourceTemplates", tool.Resource, true},
	}
)

// declared reports whether the server says that it has the list.
func (of listOf) declared(s *mcpSession) bool {
	switch of.kind {
	case tool.Prompt:
		return s.prompts
	case tool.Resource:
		return s.resources
	default:
		return s.tools
	}
}

// absent reports whether a server that does not know the method has none of what it lists. Many
// declare resources and know no templates, or declare whatever their library can do.
func (of listOf) absent(s *mcpSession) bool { return of.kind != tool.Tool || !of.declared(s) }

// others reads the lists that the server declares beside its tools. One that cannot be read fails
// nothing else: its error is noted.
func (l *load) others(out *outcome.Outcome, found *listing) {
	declared := l.session
	for _, of := range otherLists {
		if declared == nil || !of.declared(declared) {
			continue
		}
		ended, err := l.attempt(l.caller, l.whole, func() error { return l.list(of, found) })
		if err != nil {
			out.Unread = append(out.Unread, outcome.Unread{List: of.name, Reason: ended.Reason, Error: l.text(err)})
		}
	}
}

// A listing is what the lists of a server add up to, so far.
type listing struct {
	tools   []tool.Definition
	items   []tool.Definition // other ones
	nested  []tool.Definition // refused, since they are nested too deeply
	refused []outcome.Refusal
	ids     map[string]bool // [tool.ID.Key] of what was taken
	ttl     time.Duration   // the least of all lists
	lists   int

	before   *cachedLists // what the lists were the last time, if every page so far is as it was
	heard    []cachedPage // of all lists that have ended
	unparsed []*pages     // lists that have ended, if they are as they were
}

// end adds a list that has come to its end.
func (l *listing) end(p *pages) {
	l.heard = append(l.heard, p.heard...)
	if len(p.unparsed) > 0 {
		l.unparsed = append(l.unparsed, p)
		return
	}
	l.join(p)
}

// join adds all that one list has.
func (l *listing) join(p *pages) {
	if l.ids == nil {
		l.ids = p.own.ids
	} else {
		maps.Copy(l.ids, p.own.ids)
	}
	if l.lists++; l.lists == 1 || p.own.ttl < l.ttl {
		l.ttl = p.own.ttl
	}
	if p.of.kind == tool.Tool {
		l.tools = append(l.tools, p.taken...)
	} else {
		l.items = append(l.items, p.taken...)
	}
	l.nested = append(l.nested, p.own.nested...)
	l.refused = append(l.refused, p.own.refused[:min(len(p.own.refused), maxRefused-len(l.refused))]...)
}

// Pages are what the pages of one list add up to.
type pages struct {
	of      listOf
	before  *listing // what the lists before it have
	own     listing
	taken   []tool.Definition
	cursors []string
	size    int
	listed  int // taken or refused

	heard    []cachedPage
	unparsed []*pageReader // the first pages, if they are as they were
}

// add takes one page and returns the cursor of the next, nil if it was the last.
func (p *pages) add(result json.RawMessage) (json.RawMessage, error) {
	if p.size += len(result); p.size > maxListing {
		return nil, brokenProtocol("%s is longer than %d bytes", p.of.method, maxListing)
	}
	page, err := rawjson.Split(result, rawjson.Lenient)
	items, next := page.Get(p.of.member), page.Get("nextCursor")
	list, bad := rawjson.Elements(items)
	if err != nil || bad != nil {
		return nil, brokenProtocol("%s: the result has no list of %s", p.of.method, p.of.member)
	}
	if p.listed += len(list); p.listed > maxListed { // each costs a record, for good
		return nil, brokenProtocol("%s has more than %d %s", p.of.method, maxListed, p.of.member)
	}
	if ttl := ttlOf(page); len(p.cursors) == 0 || ttl < p.own.ttl {
		p.own.ttl = ttl
	}
	for _, raw := range list {
		p.take(raw)
	}
	switch {
	case next == nil, string(next) == "null", string(next) == `""`:
		return nil, nil
	case next[0] != '"':
		return nil, brokenProtocol("%s: the cursor is not a string", p.of.method)
	case slices.Contains(p.cursors, string(next)):
		return nil, brokenProtocol("%s: a cursor came twice", p.of.method)
	}
	p.cursors = append(p.cursors, string(next))
	return next, nil
}

// maxTTL is the longest time that a list counts as fresh, whatever its server says.
const maxTTL = time.Hour

// ttlOf returns how long a page of a list stays fresh, as its server says; 0 if it does not.
func ttlOf(page rawjson.Object) time.Duration {
	ms, err := strconv.ParseFloat(string(page.Get("ttlMs")), 64)
	if err != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, float64(maxTTL.Milliseconds()))) * time.Millisecond
}

// take adds one definition, or the reason why it is not taken. One bad item
// does not fail its server. One that is nested too deeply is kept beside the reason: if the gateway
// knows the item it has to wait.
func (p *pages) take(raw json.RawMessage) {
	d, err := tool.ParseItem(p.of.kind, raw)
	if err == nil {
		err = p.check(d)
	}
	if errors.Is(err, tool.ErrNested) {
		p.own.name(d)
		p.own.nested = append(p.own.nested, d)
	}
	if err != nil {
		if len(p.own.refused) < maxRefused {
			p.own.refused = append(p.own.refused, outcome.Refusal{
				Name:   text.Quote(nameIn(p.of, raw), 100), // what does not read has no name
				Kind:   p.of.kind,
				Reason: text.Clip(err.Error(), 240),
			})
		}
		return
	}
	p.own.name(d)
	p.taken = append(p.taken, d)
}

// name takes the id of a definition: no other one may have it.
func (l *listing) name(d tool.Definition) {
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	l.ids[d.ID("").Key()] = true
}

// nameIn returns what identifies an item in its list.
func nameIn(of listOf, raw json.RawMessage) string {
	key := "name"
	if of.kind == tool.Resource {
		key = "uri"
	}
	if of.template {
		key = "uriTemplate"
	}
	return rawjson.Text(rawjson.Get(raw, key))
}

// check refuses what a definition alone does not show to be wrong, and last what is nested too deeply.
func (p *pages) check(d tool.Definition) error {
	deep := tool.CheckDepth(d.Raw)
	switch {
	case deep != nil: // which the other checks may not be able to read
	case d.Kind == tool.Tool:
		if _, err := tool.HeaderParams(d.InputSchema); err != nil {
			return err
		}
		if err := checkReferences(d); err != nil {
			return err
		}
		if bytes.Contains(d.Raw, []byte(`"taskSupport"`)) && rawjson.Text(rawjson.Get(rawjson.Get(d.Raw, "execution"), "taskSupport")) == "required" {
			return errors.New(outcome.RefusedTask)
		}
	case d.Template && !p.of.template:
		return errors.New("a template is listed among the resources")
	case !d.Template && p.of.template:
		return errors.New("a resource is listed among the templates")
	}
	if key := d.ID("").Key(); !p.own.ids[key] && !p.before.ids[key] {
		return deep
	}
	if d.Kind == tool.Resource {
		return errors.New("the server lists another resource or template of that URI before it")
	}
	return errors.New("the server lists another " + d.Kind.String() + " of that name before it")
}
