package gateway

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits for the tools with a page that search mode lists. Every agent pays for them in every
// conversation.
const (
	maxPaged       = 10
	maxPagedTokens = 1500 // of all their definitions together
)

// appTool returns the tool whose lock applies to a page of a server: the first callable tool that
// names the page, or otherwise the first locked one. If all is false, only tools of the selection
// count.
func (s *Session) appTool(server, uri string, all bool) (int, bool) {
	first, ok := 0, false
	for _, i := range s.view.Apps().Pages[uri] {
		switch {
		case !s.view.Tools().Has(i), s.view.ID(i).Server != server, !all && !s.nameable.Has(i):
		case s.view.Status(i) == lock.None:
			return i, true
		case !ok:
			first, ok = i, true
		}
	}
	return first, ok
}

// pageOf separates the URI of a page from its server in a list.
const pageOf = "#"

// listedPage returns the URI of a server's page in a list. A host takes the whole gateway for one
// server: it reads a page while it calls the tool, and keeps the page by its URI. So if several
// servers of the selection have pages with this URI, the listed URI contains the server.
func (s *Session) listedPage(server, uri string) string {
	if !s.caller.Apps {
		return uri
	}
	mine, others := false, false
	for _, i := range s.view.Apps().Pages[uri] {
		if s.view.Tools().Has(i) && s.nameable.Has(i) {
			isMine := s.view.ID(i).Server == server
			mine, others = mine || isMine, others || !isMine
		}
	}
	if mine && others {
		return uri + pageOf + server
	}
	return uri
}

// withListedPage returns the definition of tool i with the listed URI of its page.
func (s *Session) withListedPage(i int, raw json.RawMessage) json.RawMessage {
	page := s.view.Tool(i).Definition.App().Page
	listed := s.listedPage(s.view.ID(i).Server, page)
	if listed == page {
		return raw
	}
	meta := rawjson.Get(raw, "_meta")
	if ui := rawjson.Get(meta, "ui"); rawjson.Text(rawjson.Get(ui, "resourceUri")) == page {
		meta = rawjson.Set(meta, "ui", rawjson.Set(ui, "resourceUri", rawjson.Quote(listed)))
	}
	if rawjson.Text(rawjson.Get(meta, "ui/resourceUri")) == page { // servers write both spellings
		meta = rawjson.Set(meta, "ui/resourceUri", rawjson.Quote(listed))
	}
	return rawjson.Set(raw, "_meta", meta)
}

// hasPages reports whether a tool of the selection names a page.
func (s *Session) hasPages() bool { return s.nameable.Meets(s.view.Apps().Paged) }

// itemLock returns the current lock of a prompt or a resource, and the item that causes it. A page
// is also locked if its tool is locked.
func (s *Session) itemLock(i int) (status lock.Status, cause int) {
	if status := s.view.Status(i); status != lock.None {
		return status, i
	}
	if id := s.view.ID(i); strings.HasPrefix(id.Name, tool.AppScheme) {
		if t, ok := s.appTool(id.Server, id.Name, true); ok {
			return s.view.Status(t), t
		}
	}
	return lock.None, i
}

func (s *Session) itemStatus(i int) lock.Status {
	status, _ := s.itemLock(i)
	return status
}

// findAppOnly returns the number of a tool that only pages call, by a name of the form server:tool.
func (s *Session) findAppOnly(name string) (int, bool) {
	id, err := tool.ParseID(name)
	if err != nil {
		return 0, false
	}
	i, ok := s.view.Find(id)
	return i, ok && s.isAppOnly(i)
}

// isAppOnly reports whether a tool of the selection is only for pages.
func (s *Session) isAppOnly(i int) bool { return s.nameable.Has(i) && !s.sel.Tools.Has(i) }

// appOnlyText tells a model why it cannot call a tool that only pages call.
func appOnlyText(id tool.ID) string {
	return "Tool " + strconv.Quote(
		id.String(),
	) + " is not for models: a page of its server (MCP App) calls it when a person uses the page."
}

// listsPaged reports whether search mode lists tools with a page to this client.
func (s *Session) listsPaged() bool {
	return !s.direct && s.caller.Apps && s.st.Config.Gateway.Apps != "off"
}

// paged yields the callable tools with a page that search mode lists, by server and name. A host
// shows a page only for a tool that it finds in tools/list and calls by its name there. paged skips
// a tool whose definition does not fit in the space that is left.
func (s *Session) paged() iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		if !s.listsPaged() {
			return
		}
		var names []string
		left := maxPagedTokens
		callable, _ := s.split()
		for i := range callable.Intersect(s.view.Apps().Paged).All() {
			name := s.directName(s.view.ID(i))
			definition := s.toolDefinition(i, name)
			size := tokensAtMost(definition)
			if slices.Contains(names, name) || size > left {
				continue
			}
			names, left = append(names, name), left-size
			if !yield(i, definition) || len(names) == maxPaged {
				return
			}
		}
	}
}

// tokensAtMost returns an estimate of the number of tokens (cl100k) of JSON. It is no less than the
// true number for definitions that people write: 527 real ones have at least 3.1 bytes for a token.
func tokensAtMost(text []byte) int {
	ascii := 0
	for _, c := range text {
		if c < 0x80 {
			ascii++
		}
	}
	return (ascii+2)/3 + len(text) - ascii
}
