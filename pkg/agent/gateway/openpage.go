package gateway

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// pageTime is how long the gateway stores whose page a client opened last: as long as a session of
// the client with the gateway.
const pageTime = 24 * time.Hour

// Texts for a host or a page.
const (
	unreadPageText = "The gateway could not read whose page this client opened last. " +
		"Nothing was sent to a server. Try again in a moment."
	unstoredPageText = "The page was read, but the gateway could not store whose page this client opens. " +
		"Nothing of it was passed on. Read it again in a moment."
	foreignText = " is not of the server whose page this client opened last, " +
		"and a page calls only tools of its own server. " +
		"Nothing was called. If the page is of the tool's server, open the page again."
)

// pageKey returns the key of the document with the server whose page this client opened last. A
// client without a session shares it with the other clients of its agent and user.
func (s *Session) pageKey() document.Key {
	sum := session.Hash(s.owner().Parts()...)
	return document.Key{Part: "PAGE#" + hex.EncodeToString(sum[:16]), ID: "PAGE"}
}

// openedPage returns the server whose page this client opened last, or "".
func (s *Session) openedPage(ctx context.Context) (string, error) {
	if s.g.o.Pages == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	d, err := document.Get(ctx, s.g.o.Pages, s.pageKey())
	if err != nil {
		return "", &mcp.Error{
			Code: mcp.CodeUpstream, Err: fmt.Errorf("read the page of a client: %w", err),
			Message: unreadPageText,
		}
	}
	return string(d.Data), nil
}

// openPage stores that this client opens a page of a server.
func (s *Session) openPage(ctx context.Context, server string) error {
	if s.g.o.Pages == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	d, err := document.Get(ctx, s.g.o.Pages, s.pageKey())
	now := s.g.o.Now()
	if err != nil || string(d.Data) == server && d.Keep.Sub(now) > pageTime/2 {
		return err
	}
	d.Data, d.Keep = []byte(server), now.Add(pageTime)
	return document.Replace(ctx, s.g.o.Pages, d)
}

// notePage stores that this client has read a page of a server. If that fails, the client does not
// get the page: its calls could go to the server of an earlier page.
func (s *Session) notePage(ctx context.Context, server string) error {
	if err := s.openPage(ctx, server); err != nil {
		return &mcp.Error{
			Code: mcp.CodeUpstream, Err: fmt.Errorf("store the page of a client: %w", err),
			Message: unstoredPageText,
		}
	}
	return nil
}

// callDirect calls a tool that the client names as server__tool. Such a call opens the tool's page,
// so that a host may cache pages and read them before it needs them.
func (s *Session) callDirect(ctx context.Context, i int, r mcp.Request) (json.RawMessage, error) {
	server := s.view.ID(i).Server
	switch {
	case s.isAppOnly(i): // a page calls it
		opened, err := s.openedPage(ctx)
		if err != nil {
			return nil, err
		}
		if opened != "" && opened != server {
			return nil, s.foreignPage(r.Name)
		}
	case s.caller.Apps && s.view.Apps().Paged.Has(i) && s.view.Status(i) == lock.None:
		if err := s.openPage(ctx, server); err != nil && ctx.Err() == nil {
			// the host will read the page too, and this read stores it again
			s.g.o.Log.LogAttrs(ctx, slog.LevelError, "page of a client not stored",
				slog.String("server", server), slog.Any("error", err))
		}
	}
	return s.call(ctx, i, tool.Destructive, r)
}

// callOther answers the call of a tool that search mode may not list: a tool by the name that it
// has in direct mode, if it has a page or only pages call it, or a page's call.
func (s *Session) callOther(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	if s.st.Config.Gateway.Apps == "off" {
		return nil, s.unknownTool(r.Name)
	}
	if i, ok := s.findDirect(tool.Tool, r.Name); ok &&
		(s.isAppOnly(i) || s.caller.Apps && s.view.Apps().Paged.Has(i)) {
		return s.callDirect(ctx, i, r)
	}
	return s.callOfPage(ctx, r)
}

// callOfPage answers the call of a page, which knows only its server's own names.
func (s *Session) callOfPage(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	fits := s.pageTools(r.Name)
	if len(fits) == 0 {
		return nil, s.unknownTool(r.Name)
	}
	opened, err := s.openedPage(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range fits {
		if s.view.ID(i).Server == opened {
			return s.call(ctx, i, tool.Destructive, r)
		}
	}
	switch {
	case opened != "":
		return nil, s.foreignPage(r.Name)
	case !s.caller.Apps:
		return nil, s.unknownTool(r.Name)
	case len(fits) > 1:
		return nil, s.ambiguousPage(r.Name, fits)
	}
	return s.call(ctx, fits[0], tool.Destructive, r)
}

// pageTools returns the tools with this name that pages may call, of servers with pages.
func (s *Session) pageTools(name string) (out []int) {
	for _, server := range s.servers() {
		i, ok := s.view.Find(tool.ID{Server: server.Config.Name, Name: name})
		if !ok || !s.nameable.Has(i) || !s.view.Tool(i).Definition.App().ForPages {
			continue
		}
		for n := server.First; n < server.First+server.Tools; n++ {
			if s.nameable.Has(n) && s.view.Apps().Paged.Has(n) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// foreignPage refuses the call of a page that is not of the tool's server.
func (s *Session) foreignPage(name string) *mcp.Error {
	s.event.Decide(audit.Scope, "")
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Tool " + quote(name) + foreignText}
}

// ambiguousPage refuses the call of a page if the gateway does not know its server.
func (s *Session) ambiguousPage(name string, fits []int) *mcp.Error {
	s.event.Refuse()
	servers := text.List(s.serversOf(fits), maxNames)
	return &mcp.Error{
		Code: mcp.CodeInvalidParams,
		Message: "More than one server has a tool " + quote(name) + " for its pages: " + servers + ". " +
			"Nothing was called. Open the page again, so that the gateway knows its server.",
	}
}

// serversOf returns the quoted names of the servers of items, each once.
func (s *Session) serversOf(items []int) (names []string) {
	last := ""
	for _, i := range items {
		if server := s.view.ID(i).Server; server != last {
			names, last = append(names, strconv.Quote(server)), server
		}
	}
	return names
}

// pageServer returns the server from which to read a page, and the server's URI for it. If no tool
// of the selection names the page, the server is "". If several servers have the page, it is the
// server in the listed URI, the server with a callable tool for it, or the server whose page this
// client opened last.
func (s *Session) pageServer(ctx context.Context, uri string) (server, own string, err error) {
	var named, callable []int
	for _, i := range s.view.Apps().Pages[uri] {
		if !s.view.Tools().Has(i) || !s.nameable.Has(i) {
			continue
		}
		if named = append(named, i); s.view.Status(i) == lock.None {
			callable = append(callable, i)
		}
	}
	if at := strings.LastIndex(uri, pageOf); len(named) == 0 && at >= 0 {
		if _, ok := s.appTool(uri[at+1:], uri[:at], false); ok {
			return uri[at+1:], uri[:at], nil
		}
	}
	if len(callable) == 0 { // the answer is the status of the first
		callable = named[:min(1, len(named))]
	}
	if len(callable) == 0 {
		return "", uri, nil
	}
	names := s.serversOf(callable)
	if len(names) == 1 {
		return s.view.ID(callable[0]).Server, uri, nil
	}
	opened, err := s.openedPage(ctx)
	if err != nil {
		return "", uri, err
	}
	if slices.ContainsFunc(callable, func(i int) bool { return s.view.ID(i).Server == opened }) {
		return opened, uri, nil
	}
	return "", uri, &mcp.Error{
		Code: mcp.CodeInvalidParams, Data: uriData(uri),
		Message: "More than one server has the page " + quote(uri) + ": " + text.List(names, maxNames) + ". " +
			"Nothing was sent to a server. " +
			"Call the tool of the page first, or read the page at /mcp/x/{server}.",
	}
}
