package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// A Session is the view of one request. Only one goroutine may use it.
type Session struct {
	g      *Gateway
	caller Caller
	client mcp.Client // receives a call's messages and questions
	event  *audit.CallEvent
	target observe.Target // of the call in metrics
	st     *state.State
	view   *state.View
	sel    toolset.Selection // its Tools are only tools for models
	direct bool
	bare   bool // direct mode without prefix
	down   bool // there is no data to answer from
	seen   bool // view includes the agent's grants

	granted request.Granted // the grants in view
	confirm confirm

	nameable tool.Set // the selected tools, including those that only pages call
}

// Open resolves the state and the selection of one request. The error is an [*mcp.Error].
func (g *Gateway) Open(ctx context.Context, c Caller) (*Session, error) {
	req, err := toolset.ParseRequest(c.Path, c.Header)
	if err != nil {
		return nil, selectionError(err)
	}
	if c.Event == nil {
		c.Event = new(audit.CallEvent)
	}
	st := g.states.Load(ctx)
	s := &Session{g: g, caller: c, event: c.Event, st: st, view: st.View(c.Agent), down: !st.Ready()}
	if st.Config != nil {
		s.direct = st.Config.Gateway.Mode == "direct"
		s.bare = s.direct && st.Config.Gateway.Bare
	}
	if s.down {
		return s, nil
	}
	if s.sel, err = s.view.Select(req); err != nil {
		return nil, selectionError(err)
	}
	s.nameable = s.sel.Tools
	if appOnly := s.view.Apps().AppOnly; s.nameable.Meets(appOnly) {
		s.sel.Tools = s.nameable.Without(appOnly)
	}
	return s, nil
}

// selectionError renders a [*toolset.Error] of a selection.
func selectionError(err error) error {
	e, ok := errors.AsType[*toolset.Error](err)
	if !ok {
		return err
	}
	data, err := rawjson.Encode(struct {
		UnknownToolsets []string           `json:"unknown_toolsets"`
		UnknownTools    []string           `json:"unknown_tools"`
		Conflicts       []toolset.Conflict `json:"conflicts"`
	}{orEmpty(e.UnknownToolsets), orEmpty(e.UnknownTools), orEmpty(e.Conflicts)})
	return &mcp.Error{
		Code: mcp.CodeInvalidParams, Message: e.Message, Data: data,
		Status: e.Status, RetryAfter: e.RetryAfter, Err: err,
	}
}

// orEmpty returns a copy of s that is never nil, so that its JSON is [] and not null.
func orEmpty[T any](s []T) []T { return append([]T{}, s...) }

// namesSize limits the names of servers in the instructions, in bytes. Every agent pays for the
// names in every conversation, and a search also finds the tools of the other servers.
const namesSize = 80

// Instructions returns two lines about the tools of the gateway.
func (s *Session) Instructions() string {
	names := s.serverNames()
	if s.direct {
		return "Gateway to the tools of: " + names + ".\n" +
			"Locked tools are not listed. A call of a locked tool returns the reason and what a person must do to unlock it." + s.asksToo()
	}
	return "Gateway to the tools of: " + names + ". Find them with retrieve_tools. Call a result with the tool named in its call_with.\n" +
		"A missing tool may be locked. Set include_disabled: true to see locked tools and who can unlock them." + s.asksToo()
}

// serverNames returns the names of the servers, up to a limit. The servers with the most tools come
// first.
func (s *Session) serverNames() string {
	type counted struct {
		name  string
		tools int
	}
	all := s.view.Servers()
	// sort small values: a server is large, and each client calls this first
	servers := make([]counted, 0, len(all))
	for i := range all {
		srv := &all[i]
		if !s.sel.HasServer(srv.Config.Name) {
			continue
		}
		c := counted{name: srv.Config.Name}
		for t := srv.First; t < srv.First+srv.Tools; t++ {
			if s.sel.Tools.Has(t) {
				c.tools++
			}
		}
		servers = append(servers, c)
	}
	switch {
	case len(servers) == 0 && isFirstSync(s.st.Health):
		return "no server yet (the first sync is still running)"
	case len(servers) == 0:
		return "no server yet"
	}
	slices.SortStableFunc(servers, func(a, b counted) int { return cmp.Compare(b.tools, a.tools) }) // stable: they are sorted by name
	names, room, size := make([]string, len(servers)), 0, 0
	for i, srv := range servers {
		names[i] = srv.name
		if size += len(names[i]) + len(", "); size <= namesSize || i == 0 {
			room = i + 1
		}
	}
	list := text.List(names, room)
	if len(names) > room {
		list += " (upstream_servers lists them)"
	}
	return list
}

// asksToo returns the end of the instructions if agents may request access, or "".
func (s *Session) asksToo() string {
	if !s.canAsk() {
		return ""
	}
	return " request_access asks that person."
}

// find returns the number of a tool that exists for this request.
func (s *Session) find(id tool.ID) (int, bool) {
	i, ok := s.view.Find(id)
	return i, ok && s.sel.Tools.Has(i)
}

// findNamed works like [Session.find], but with a name of the form server:tool.
func (s *Session) findNamed(name string) (int, bool) {
	id, err := tool.ParseID(name)
	if err != nil {
		return 0, false
	}
	return s.find(id)
}

// split splits the selection into callable and locked tools.
func (s *Session) split() (callable, locked tool.Set) {
	return s.sel.Tools.Intersect(s.view.Callable()), s.sel.Tools.Without(s.view.Callable())
}

// Callable returns how many tools the caller can call: tools of the selection that are not locked
// and have a permitted tier.
func (s *Session) Callable() (n int) {
	if s.down {
		return 0
	}
	callable, _ := s.split()
	for i := range callable.All() {
		if slices.Contains(s.caller.Agent.Tiers, s.view.Tier(i)) {
			n++
		}
	}
	return n
}

// meta returns the _meta of the gateway's own answers, or nil.
func (s *Session) meta() map[string]any {
	if len(s.sel.Ignored) == 0 {
		return nil
	}
	return map[string]any{"dev.portcullis/ignored": s.sel.Ignored}
}

// answer returns the result of one of the gateway's own tools.
func (s *Session) answer(v any) (json.RawMessage, error) {
	raw, err := rawjson.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return s.answerJSON(raw)
}

// answerJSON returns the JSON result of one of the gateway's own tools.
func (s *Session) answerJSON(answer []byte) (json.RawMessage, error) {
	s.event.Allow("")
	return result(answer, false, s.meta())
}

// refuse returns an error result with a text that the agent should read and act on.
func (s *Session) refuse(text string) (json.RawMessage, error) {
	s.event.Refuse()
	return result(text, true, s.meta())
}
