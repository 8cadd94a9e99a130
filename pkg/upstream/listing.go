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
	name     string // in the outcome's lists; "": the tools
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
func (list listOf) declared(s *mcpSession) bool {
	switch list.kind {
	case tool.Prompt:
		return s.prompts
	case tool.Resource:
		return s.resources
	default:
		return s.tools
	}
}

// absent reports whether the error "unknown method" means that the server has no such items. Many
// servers declare resources but have no templates, or declare all features of their library.
func (list listOf) absent(s *mcpSession) bool { return list.kind != tool.Tool || !list.declared(s) }

// others reads the lists that the server declares in addition to its tools. An error in one list
// does not affect other lists. others records the error in out.
func (l *load) others(out *outcome.Outcome, found *listing) {
	declared := l.session
	for _, list := range otherLists {
		if declared == nil || !list.declared(declared) {
			continue
		}
		end, err := l.attempt(l.caller, l.whole, func() error { return l.list(list, found) })
		if err != nil {
			out.Unread = append(out.Unread, outcome.Unread{List: list.name, Reason: end.Reason, Error: l.text(err)})
		}
	}
}

// A listing collects the lists of a server.
type listing struct {
	tools   []tool.Definition
	items   []tool.Definition // of the other kinds
	nested  []tool.Definition // refused: too deeply nested
	refused []outcome.Refusal
	ids     map[string]bool // [tool.ID.Key] of the accepted definitions
	ttl     time.Duration   // the shortest of all lists
	lists   int

	before   *cachedLists // the lists of the last load, while every page is unchanged
	cached   []cachedPage // of all lists that are complete
	unparsed []*pages     // complete lists that are unchanged
}

// end adds a complete list.
func (l *listing) end(p *pages) {
	l.cached = append(l.cached, p.cached...)
	if len(p.unparsed) > 0 {
		l.unparsed = append(l.unparsed, p)
		return
	}
	l.join(p)
}

// join adds all definitions of one list.
func (l *listing) join(p *pages) {
	if l.ids == nil {
		l.ids = p.own.ids
	} else {
		maps.Copy(l.ids, p.own.ids)
	}
	if l.lists++; l.lists == 1 || p.own.ttl < l.ttl {
		l.ttl = p.own.ttl
	}
	if p.list.kind == tool.Tool {
		l.tools = append(l.tools, p.taken...)
	} else {
		l.items = append(l.items, p.taken...)
	}
	l.nested = append(l.nested, p.own.nested...)
	l.refused = append(l.refused, p.own.refused[:min(len(p.own.refused), maxRefused-len(l.refused))]...)
}

// A pages collects the pages of one list.
type pages struct {
	list    listOf
	before  *listing // the lists before it
	own     listing
	taken   []tool.Definition
	cursors []string

	stateless bool // the server uses the stateless protocol
	size      int
	listed    int // accepted or refused

	cached   []cachedPage
	unparsed []*pageReader // the first pages, if they are unchanged
}

// add reads one page and returns the cursor of the next page, or nil after the last.
func (p *pages) add(result json.RawMessage) (json.RawMessage, error) {
	if p.size += len(result); p.size > maxListing {
		return nil, brokenProtocol("%s is longer than %d bytes", p.list.method, maxListing)
	}
	page, err := rawjson.Split(result, rawjson.Lenient)
	items, next := page.Get(p.list.member), page.Get("nextCursor")
	list, bad := rawjson.Elements(items)
	if err != nil || bad != nil {
		return nil, brokenProtocol("%s: the result has no list of %s", p.list.method, p.list.member)
	}
	if p.listed += len(list); p.listed > maxListed { // each item needs a permanent record
		return nil, brokenProtocol("%s has over %d %s", p.list.method, maxListed, p.list.member)
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
		return nil, brokenProtocol("%s: the cursor is not a string", p.list.method)
	case slices.Contains(p.cursors, string(next)):
		return nil, brokenProtocol("%s: a cursor came twice", p.list.method)
	}
	p.cursors = append(p.cursors, string(next))
	return next, nil
}

// maxTTL is the maximum time that a list counts as fresh, even if its server gives a longer time.
const maxTTL = time.Hour

// ttlOf returns how long a page of a list stays fresh according to its server; 0 if the server does
// not say.
func ttlOf(page rawjson.Object) time.Duration {
	ms, err := strconv.ParseFloat(string(page.Get("ttlMs")), 64)
	if err != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, float64(maxTTL.Milliseconds()))) * time.Millisecond
}

// take adds one definition, or the reason for its refusal. One bad item does not fail its server.
// take also keeps a definition that is nested too deeply, because a known item then has to wait for
// approval.
func (p *pages) take(raw json.RawMessage) {
	d, err := tool.ParseItem(p.list.kind, raw)
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
				Name:   text.Quote(nameIn(p.list, raw), 100), // an unreadable item has no name
				Kind:   p.list.kind,
				Reason: text.Clip(err.Error(), 240),
			})
		}
		return
	}
	p.own.name(d)
	p.taken = append(p.taken, d)
}

// name registers the id of a definition, so that no other definition uses the id.
func (l *listing) name(d tool.Definition) {
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	l.ids[d.ID("").Key()] = true
}

// nameIn returns the text that identifies an item in its list.
func nameIn(list listOf, raw json.RawMessage) string {
	key := "name"
	if list.kind == tool.Resource {
		key = "uri"
	}
	if list.template {
		key = "uriTemplate"
	}
	return rawjson.Text(rawjson.Get(raw, key))
}

// requiresTask reports whether a tool of the handshake protocol only runs as a task.
func requiresTask(d tool.Definition) bool {
	const name = "taskSupport"
	return bytes.Contains(d.Raw, []byte(`"`+name+`"`)) &&
		rawjson.Text(rawjson.Get(rawjson.Get(d.Raw, "execution"), name)) == "required"
}

// check refuses definitions for reasons that the definition alone does not show. It checks the
// nesting last.
func (p *pages) check(d tool.Definition) error {
	deep := tool.CheckDepth(d.Raw)
	switch {
	case deep != nil: // the other checks may fail on deep nesting
	case d.Kind == tool.Tool:
		if _, err := tool.HeaderParams(d.InputSchema); err != nil {
			return err
		}
		if err := checkReferences(d); err != nil {
			return err
		}
		if !p.stateless && requiresTask(d) {
			return errors.New(outcome.RefusedTask)
		}
	case d.Template && !p.list.template:
		return errors.New("a template is listed among the resources")
	case !d.Template && p.list.template:
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
