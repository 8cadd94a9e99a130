package gateway

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A serverEntry is one server in the answer of upstream_servers.
type serverEntry struct {
	Name     string       `json:"name"`
	Enabled  bool         `json:"enabled"`
	Status   string       `json:"status"`
	Message  string       `json:"message,omitempty"`
	Tools    *lock.Counts `json:"tools,omitempty"` // only if one of its tools is locked
	Toolsets []string     `json:"toolsets,omitempty"`

	// Only in the answer about one server, and only if the server has such items.
	Prompts   *kindEntry `json:"prompts,omitempty"`
	Resources *kindEntry `json:"resources,omitempty"`
}

// maxListed is how many servers one answer lists. A thousand would be about twenty thousand tokens.
const maxListed = 50

// A serverPage is the answer of upstream_servers.
type serverPage struct {
	Servers []serverEntry `json:"servers"`
	Total   int           `json:"total"`          // of all pages
	Next    string        `json:"next,omitempty"` // "after" of the next page; "": this is the last
}

// listServers answers upstream_servers.
func (s *Session) listServers(r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "operation", "name", "after")
	operation := a.oneOf("operation", "list", "get")
	name := a.text("name", operation == "get", "the name of a server as operation list gives it")
	if _, hasOperation := a.values["operation"]; !hasOperation && name != "" {
		operation = "get" // the menu documents only name
	}
	after := a.text("after", false, "next of the page before")
	if operation == "list" && name != "" {
		a.faultf("name is for operation get only: leave it out, or ask for operation get")
	}
	if operation == "get" && after != "" {
		a.faultf("after is for a list, which has no name: leave one of the two out")
	}
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	servers := s.servers()
	at, found := slices.BinarySearchFunc(servers, cmp.Or(name, after), func(srv state.Server, name string) int {
		return cmp.Compare(srv.Config.Name, name)
	})
	out := serverPage{Total: len(servers)}
	switch {
	case operation == "get" && !found:
		s.event.Decide(audit.Scope, "")
		return s.refuse(unknownServer(name))
	case operation == "get":
		servers, out.Total = servers[at:at+1], 1
	case found:
		servers = servers[at+1:]
	default:
		servers = servers[at:]
	}
	if len(servers) > maxListed {
		servers = servers[:maxListed]
		out.Next = servers[maxListed-1].Config.Name
	}
	out.Servers = make([]serverEntry, len(servers))
	for i, srv := range servers {
		out.Servers[i] = s.serverEntry(srv)
		if operation == "get" {
			out.Servers[i].Prompts = s.kindEntry(srv, tool.Prompt, s.sel.Prompts)
			out.Servers[i].Resources = s.kindEntry(srv, tool.Resource, s.sel.Resources)
		}
	}
	return s.answer(out)
}

func unknownServer(name string) string {
	return "Server " + quote(name) + " was not found. upstream_servers without a name lists all there are."
}

// servers returns the servers that exist for this request, by name.
func (s *Session) servers() []state.Server {
	all := s.view.Servers()
	out := make([]state.Server, 0, len(all))
	for i := range all {
		if s.sel.HasServer(all[i].Config.Name) {
			out = append(out, all[i])
		}
	}
	return out
}

func (s *Session) serverEntry(srv state.Server) serverEntry {
	cause, stopped := s.view.ServerStopped(srv)
	e := serverEntry{Name: srv.Config.Name, Enabled: srv.Config.Enabled && !stopped, Toolsets: s.sel.ServerToolsets(srv.Config.Name)}
	out := srv.Outcome
	switch {
	case !e.Enabled:
		e.Status, e.Message = "disabled", s.g.stopNote(cause)
	case out.Status == "":
		out.Status = outcome.Transient // new since the last sync: the next sync loads it
		fallthrough
	default:
		e.Status = string(out.Status)
		e.Message = out.Message(srv.Config.Name)
	}
	var counts lock.Counts
	for i := srv.First; i < srv.First+srv.Tools; i++ {
		if s.sel.Tools.Has(i) {
			counts.Add(s.view.Status(i))
		}
	}
	if counts.Locked() > 0 {
		e.Tools = &counts
	}
	return e
}
