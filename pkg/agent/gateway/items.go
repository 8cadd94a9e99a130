package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Offers says which features exist for a request in addition to tools.
type Offers struct {
	Prompts, Resources bool
	Completions        bool // for arguments of prompts and templates
	Tasks              bool // the result of a call may be a task
}

// Offers returns the features that exist for this request in addition to tools, even if all their
// items are locked. A client asks only once, and a lock may end later.
func (s *Session) Offers() Offers {
	return Offers{
		Prompts: s.offersPrompts(), Resources: s.offersResources(),
		Completions: s.offersCompletions(), Tasks: s.offersTasks(),
	}
}

// offersTasks reports whether the gateway can pass tasks on: they need a key to seal their handles.
func (s *Session) offersTasks() bool { return s.caller.Modern && s.g.o.Sealer != nil }

func (s *Session) offersPrompts() bool { return s.sel.Prompts.Len() > 0 }

// offersResources reports whether something can be read. A server may list no page.
func (s *Session) offersResources() bool {
	return s.sel.Resources.Len() > 0 || s.hasPages() || s.unlisted() != nil
}

// offersCompletions reports whether there is a prompt or a template. It is slow if there are many
// resources and no prompt.
func (s *Session) offersCompletions() bool {
	if s.offersPrompts() {
		return true
	}
	for i := range s.sel.Resources.All() {
		if strings.Contains(s.view.ID(i).Name, "{") {
			return true
		}
	}
	return false
}

// checkFeature refuses a method of a feature that does not exist for this request.
func (s *Session) checkFeature(method string) *mcp.Error {
	if s.down {
		return notReadyError(s.st.Health)
	}
	there := false
	switch method {
	case mcp.MethodListPrompts, mcp.MethodGetPrompt:
		there = s.offersPrompts()
	case mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodReadResource:
		there = s.offersResources()
	case mcp.MethodComplete:
		there = s.offersCompletions()
	}
	if !there {
		return methodNotFound()
	}
	return nil
}

// ListItems returns one page of prompts/list, resources/list or resources/templates/list. It lists
// only callable items, because hosts offer the listed items to people. An error is an [*mcp.Error].
func (s *Session) ListItems(ctx context.Context, method, cursor string) (json.RawMessage, error) {
	if refused := s.checkFeature(method); refused != nil {
		return nil, refused
	}
	s.loadGrants(ctx)
	l := listing{name: func(id tool.ID) string { return id.Name }, entry: s.resourceDefinition}
	switch method {
	case mcp.MethodListPrompts:
		l.kind, l.member, l.items, l.name = "prompts", "prompts", s.callable(s.sel.Prompts), s.directName
		l.entry = s.promptDefinition
	case mcp.MethodListResources:
		l.kind, l.member, l.items = "resources", "resources", s.resources(false)
		l.name = func(id tool.ID) string { return s.listedPage(id.Server, id.Name) }
	case mcp.MethodListTemplates:
		l.kind, l.member, l.items = "resource templates", "resourceTemplates", s.resources(true)
	}
	return s.page(l, cursor)
}

// promptDefinition returns prompt i for a list.
func (s *Session) promptDefinition(i int, name string) json.RawMessage {
	return agentDefinition(s.view.Tool(i).Definition, name, tool.Annotations{})
}

// resourceDefinition returns resource i for a list, with the server's bytes. Its URI has to stay
// the same, because links in results use it. Only a page that several servers have gets the URI in
// the definition of its tool.
func (s *Session) resourceDefinition(i int, _ string) json.RawMessage {
	raw, id := s.view.Tool(i).Definition.Raw, s.view.ID(i)
	if listed := s.listedPage(id.Server, id.Name); listed != id.Name {
		return rawjson.Set(raw, "uri", rawjson.Quote(listed))
	}
	return raw
}

// callable yields the prompts or resources that are not locked.
func (s *Session) callable(items tool.Set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range items.All() {
			if s.itemStatus(i) == lock.None && !yield(i) {
				return
			}
		}
	}
}

// resources yields the callable resources, or the callable templates of resources.
func (s *Session) resources(templates bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.callable(s.sel.Resources) {
			if s.view.Tool(i).Definition.Template == templates && !yield(i) {
				return
			}
		}
	}
}

// GetItem answers prompts/get, resources/read and completion/complete. The request r comes from
// [mcp.Parse], which has checked it. Before the result, the client c receives the server's messages
// and questions. GetItem returns the server's result with its original bytes. An error is an
// [*mcp.Error], or says that ctx ended.
func (s *Session) GetItem(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
	s.client = c
	if s.begin(cmp.Or(r.Name, r.URI)); r.Method == mcp.MethodGetPrompt {
		s.event.SetArguments(r.Arguments)
	}
	if fault := s.checkAudit(ctx); fault != nil {
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: unauditedText(fault), Err: fault}
	}
	if refused := cmp.Or(s.checkFeature(r.Method), missingMember(r)); refused != nil {
		return nil, refused
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTime())
	defer cancel()
	raw, err := s.getItem(ctx, r)
	if _, rpc := errors.AsType[*mcp.Error](err); !rpc && errors.Is(err, context.DeadlineExceeded) {
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: ranOut, Err: err}
	}
	return raw, err
}

// missingMember refuses a request without a required member, or returns nil.
func missingMember(m mcp.Request) *mcp.Error {
	var missing string
	switch subject, member := m.Subject(); {
	case member != "" && subject == "":
		missing = member
	case m.Method == mcp.MethodComplete && m.Ref == nil:
		missing = "ref"
	case m.Method == mcp.MethodComplete && m.Rest.Get("argument") == nil:
		missing = "argument"
	default:
		return nil
	}
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params." + missing + " is required"}
}

// ranOut is the answer to a request whose time ran out before the gateway sent anything upstream.
// After a send, the answer is different.
const ranOut = "The gateway ran out of time before it had an answer. Nothing was sent to a server: call again."

func (s *Session) getItem(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case mcp.MethodGetPrompt:
		i, ok := s.findDirect(tool.Prompt, r.Name)
		if !ok {
			return nil, s.unknownPrompt(r.Name)
		}
		return s.get(ctx, i, s.view.ID(i).Name, r)
	case mcp.MethodReadResource:
		return s.read(ctx, "", r)
	case mcp.MethodComplete:
		return s.complete(ctx, r)
	}
	return nil, methodNotFound()
}

func methodNotFound() *mcp.Error {
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
}

func (s *Session) unknownPrompt(name string) *mcp.Error {
	s.event.Decide(audit.Scope, "")
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown prompt: " + quote(name)}
}

// notReadyError refuses a request until the gateway has read the state that it needs.
func notReadyError(h state.Health) *mcp.Error {
	return &mcp.Error{
		Code: http.StatusServiceUnavailable, Message: downText(h),
		Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second,
	}
}
