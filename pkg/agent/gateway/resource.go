package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxClaims is how many templates of a server a URI may match. All of them must be callable.
const maxClaims = 16

// A source holds the server and the items of a URI.
type source struct {
	server   state.Server
	listed   tool.ID // the resource or template; for a link in a result, the id in metrics
	subjects []int   // the items that must not be locked
	exact    bool    // the server listed exactly this URI
}

// read answers resources/read. It reads from the named server, or if server is "", from the server
// that has the URI.
func (s *Session) read(ctx context.Context, server string, r mcp.Request) (json.RawMessage, error) {
	if server == "" {
		var err error
		if server, r.URI, err = s.pageServer(ctx, r.URI); err != nil {
			return nil, err
		}
	}
	from, err := s.source(server, r.URI)
	if err == nil && !from.exact {
		if err = s.checkNormal(from, r.URI); err == nil {
			err = s.addAlike(&from, r.URI)
		}
	}
	if err != nil {
		return nil, err
	}
	s.event.Tool = tool.ID{Server: from.server.Config.Name, Name: r.URI, Kind: tool.Resource}.String()
	now, refused := s.lockedSource(ctx, from, r.URI)
	if refused != nil {
		return nil, refused
	}
	raw, err := s.send(now.withConnection(ctx), from.server, from.listed, r.URI, r)
	if err != nil {
		return nil, err
	}
	if err := s.checkContents(ctx, from, r.URI, raw); err != nil {
		return nil, err
	}
	if r.ID != nil && strings.HasPrefix(r.URI, tool.AppScheme) { // a host's read; others have no id
		if err := s.notePage(ctx, from.server.Config.Name); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// lockedSource returns an error that refuses to read a locked item. Otherwise it returns the state
// of the last item that it checked.
func (s *Session) lockedSource(
	ctx context.Context, from source, uri string,
) (now lockState, err error) {
	// Items that are locked in the view come first: one locked record suffices to refuse.
	slices.SortStableFunc(from.subjects, func(a, b int) int { return locks(s.view.Status(b)) - locks(s.view.Status(a)) })
	for _, i := range from.subjects {
		if now, err = s.checkLock(ctx, i); err != nil {
			return now, err
		}
	}
	if from.exact {
		return now, nil
	}
	// A rule may deny a URI that only a template matches, in any spelling.
	id := tool.ID{Server: from.server.Config.Name, Name: uri, Kind: tool.Resource}
	verdict := s.view.VerdictOn(id)
	for _, plain := range tool.PlainURIs(uri) {
		if verdict.Denied == lock.No {
			verdict = s.view.VerdictOn(tool.ID{Server: id.Server, Name: plain, Kind: id.Kind})
		}
	}
	now.status = lock.Classify(lock.Facts{
		ServerEnabled: lock.FactOf(from.server.Config.Enabled), Denied: verdict.Denied, UserDisabled: lock.No, Approved: lock.Yes,
	})
	if now.status == lock.None && len(from.subjects) == 0 { // otherwise the loop has checked it
		now = s.serverLockState(ctx, id)
	}
	switch {
	case now.status == lock.None:
		return now, nil
	case ctx.Err() != nil:
		return now, ctx.Err()
	case now.refuse != nil:
		return now, now.refuse
	}
	l := lockInfo{Name: id.String(), Status: now.status, Note: now.note, Remediation: lock.RemediationOf(id.Kind.String(), now.status, "")}
	if now.status == lock.DisabledByConfig {
		l.Note = verdict.Denial.Note()
	}
	s.countLocked(ctx, l, verdict)
	return now, l.refusal(id.Kind)
}

// locks returns 1 for a locked status, otherwise 0.
func locks(status lock.Status) int {
	if status == lock.None {
		return 0
	}
	return 1
}

// source returns the source of a URI. It refuses a URI that no visible server has, that several
// servers have, or that too many templates match.
func (s *Session) source(server, uri string) (source, error) {
	if tool.ValidURI(uri) != nil {
		return source{}, s.unknownURI(uri) // no server can have listed it
	}
	claims, all := s.view.Claims(uri, s.resourcesOf(server))
	for _, i := range claims {
		if s.view.ID(i).Server != s.view.ID(claims[0]).Server {
			return source{}, s.claimedTwice(uri, claims)
		}
	}
	switch {
	case !all, len(claims) > maxClaims:
		return source{}, tooManyTemplates(uri)
	case len(claims) == 0:
		return s.unlistedSource(server, uri)
	}
	from := source{server: s.view.Server(claims[0]), listed: s.view.ID(claims[0]), subjects: claims}
	from.exact = !s.view.Tool(claims[0]).Definition.Template
	if t, ok := s.appTool(from.server.Config.Name, uri, true); ok {
		from.subjects = append(from.subjects, t)
	}
	return from, nil
}

// checkNormal refuses a URI that the server may read as another URI, because the gateway would then
// check the locks of the wrong resource. The check skips two kinds of URIs: pages, whose URI is in
// the tool's definition, and templates with a ";", which use path parameters.
func (s *Session) checkNormal(from source, uri string) error {
	keepParams := false
	for _, i := range from.subjects {
		id := s.view.ID(i)
		if id.Kind == tool.Tool {
			return nil
		}
		keepParams = keepParams || strings.Contains(id.Name, ";")
	}
	normal := tool.NormalURI(uri, keepParams)
	if normal == uri {
		return nil
	}
	return &mcp.Error{
		Code: mcp.CodeInvalidParams, Data: uriData(uri),
		Message: "The URI " + quote(uri) + " is not listed and is not in its normal form. Nothing was sent to a server. Read its normal form: " + text.Quote(normal, tool.MaxURI),
	}
}

// addAlike adds the items that the server may read for this unlisted URI, so that another spelling
// does not open a locked item.
func (s *Session) addAlike(from *source, uri string) error {
	alike, all := s.view.Alike(from.server.Config.Name, uri)
	for _, i := range alike {
		switch {
		case !s.sel.Resources.Has(i): // it does not exist for this request
			return s.unknownURI(uri)
		case !slices.Contains(from.subjects, i):
			from.subjects = append(from.subjects, i)
		}
	}
	if !all || len(from.subjects) > maxClaims {
		return tooManyTemplates(uri)
	}
	return nil
}

func tooManyTemplates(uri string) *mcp.Error {
	return &mcp.Error{
		Code: mcp.CodeInvalidParams, Data: uriData(uri),
		Message: "Too many resource templates match " + quote(uri) + ", so that the gateway cannot tell whose it is. Nothing was sent to a server. " + readAlone,
	}
}

// resourcesOf returns the resources of a server that exist for this request; "" means all servers.
func (s *Session) resourcesOf(server string) tool.Set {
	if server == "" {
		return s.sel.Resources
	}
	resources := make(tool.Set, len(s.sel.Resources))
	for i := range s.sel.Resources.All() {
		if s.view.Server(i).Config.Name == server {
			resources.Add(i)
		}
	}
	return resources
}

// readAlone tells an agent how to read a URI that several servers have.
const readAlone = "Read it at /mcp/x/{server}, where one server alone is asked."

// unlistedSource returns the source of a URI that no server listed. Such a URI is the page of a
// tool, or a link in a result. A link is readable if the operator allows it and the request is
// about one server.
func (s *Session) unlistedSource(name, uri string) (source, error) {
	var found []source
	if strings.HasPrefix(uri, tool.AppScheme) {
		for _, server := range s.servers() {
			if t, ok := s.appTool(server.Config.Name, uri, false); ok && (name == "" || name == server.Config.Name) {
				found = append(found, source{server: server, listed: tool.ID{Server: server.Config.Name, Name: uri, Kind: tool.Resource}, subjects: []int{t}})
			}
		}
	} else if server := s.unlisted(); server != nil && (name == "" || name == server.Config.Name) {
		// All links count as one item, because agents choose their URIs.
		found = append(found, source{server: *server, listed: tool.ID{Server: server.Config.Name, Name: "unlisted", Kind: tool.Resource}})
	}
	switch len(found) {
	case 0:
		return source{}, s.unknownURI(uri)
	case 1:
		return found[0], nil
	}
	return source{}, s.claimedTwice(uri, []int{found[0].subjects[0], found[1].subjects[0]})
}

// unlisted returns the server whose unlisted URIs the request may read, or nil.
func (s *Session) unlisted() *state.Server {
	name, ok := strings.CutPrefix(s.caller.Path, "/x/")
	if !ok || s.down {
		return nil
	}
	for _, server := range s.servers() {
		if strings.EqualFold(server.Config.Name, strings.TrimSpace(name)) && server.Config.UnlistedResources {
			return &server
		}
	}
	return nil
}

// claimedTwice returns the refusal of a URI that more than one server has.
func (s *Session) claimedTwice(uri string, claims []int) *mcp.Error {
	return &mcp.Error{
		Code: mcp.CodeInvalidParams, Data: uriData(uri),
		Message: "More than one server has " + quote(uri) + ": " + text.List(s.serversOf(claims), maxNames) + ". Nothing was sent to a server. " + readAlone,
	}
}

// unknownURI returns the refusal of a URI that no visible server has.
func (s *Session) unknownURI(uri string) *mcp.Error {
	s.event.Decide(audit.Scope, "")
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown resource: " + quote(uri), Data: uriData(uri)}
}

// uriData returns the data of an error about a URI.
func uriData(uri string) json.RawMessage {
	return rawjson.Object{{Name: "uri", Value: rawjson.Quote(text.Clip(uri, tool.MaxURI))}}.Bytes()
}
