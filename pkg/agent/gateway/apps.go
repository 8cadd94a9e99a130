package gateway

import (
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// appScheme is the URI scheme of MCP Apps: pages that a host shows for a tool.
const appScheme = "ui://"

// apps returns the tools of a server that name a page, by the page's URI.
func (s *Session) apps(server state.Server) map[string][]int {
	if pages, ok := s.pages[server.Config.Name]; ok {
		return pages
	}
	found := map[string][]int{}
	for i := server.First; i < server.First+server.Tools; i++ {
		if uri := pageOf(s.view.Tool(i).Definition); uri != "" {
			found[uri] = append(found[uri], i)
		}
	}
	if s.pages == nil {
		s.pages = map[string]map[string][]int{}
	}
	s.pages[server.Config.Name] = found
	return found
}

// pageOf returns the URI of a tool's page, or "" if the tool has none.
func pageOf(d tool.Definition) string {
	meta := rawjson.Get(d.Raw, "_meta")
	if meta == nil {
		return ""
	}
	uri := rawjson.Text(rawjson.Get(rawjson.Get(meta, "ui"), "resourceUri"))
	if uri == "" {
		uri = rawjson.Text(rawjson.Get(meta, "ui/resourceUri")) // the older spelling
	}
	if !strings.HasPrefix(uri, appScheme) {
		return ""
	}
	return uri
}

// appTool returns the tool whose lock applies to a page: the first callable tool that names the
// page, or otherwise the first locked one. If all is false, only offered tools count.
func (s *Session) appTool(server state.Server, uri string, all bool) (int, bool) {
	if !strings.HasPrefix(uri, appScheme) {
		return 0, false
	}
	first, ok := 0, false
	for _, i := range s.apps(server)[uri] {
		switch {
		case !all && !s.sel.Tools.Has(i):
		case s.view.Status(i) == lock.None:
			return i, true
		case !ok:
			first, ok = i, true
		}
	}
	return first, ok
}

// itemLock returns the current lock of a prompt or a resource, and the item that causes it. A page
// is also locked if its tool is locked.
func (s *Session) itemLock(i int) (status lock.Status, cause int) {
	if status := s.view.Status(i); status != lock.None {
		return status, i
	}
	if t, ok := s.appTool(s.view.Server(i), s.view.ID(i).Name, true); ok {
		return s.view.Status(t), t
	}
	return lock.None, i
}

func (s *Session) itemStatus(i int) lock.Status {
	status, _ := s.itemLock(i)
	return status
}
