package gateway

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A listed is one server in the answer of upstream_servers.
type listed struct {
	Name     string       `json:"name"`
	Enabled  bool         `json:"enabled"`
	Status   string       `json:"status"`
	Message  string       `json:"message,omitempty"`
	Tools    *lock.Counts `json:"tools,omitempty"` // only if one of its tools is locked
	Toolsets []string     `json:"toolsets,omitempty"`
}

// listServers answers upstream_servers.
func (s *Session) listServers(raw json.RawMessage) (json.RawMessage, error) {
	a := readArguments(upstreamServers, raw, "operation", "name")
	operation := a.oneOf("operation", "list", "get")
	name := a.text("name", operation == "get", "the name of a server as operation list gives it")
	if operation == "list" && name != "" {
		a.faultf("name is for operation get only: leave it out, or ask for operation get")
	}
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	out := struct {
		Servers []listed `json:"servers"`
		Total   int      `json:"total"`
	}{Servers: []listed{}}
	toolsets := s.sel.ServerToolsets()
	for _, srv := range s.servers() {
		if operation == "list" || srv.Config.Name == name {
			l := s.listed(srv)
			l.Toolsets = toolsets[srv.Config.Name]
			out.Servers = append(out.Servers, l)
		}
	}
	out.Total = len(out.Servers)
	if operation == "get" && out.Total == 0 {
		return s.refuse("Server " + quote(name) + " was not found. upstream_servers with operation list names all there are.")
	}
	return s.own(out)
}

// servers returns the servers that exist for this request, by name.
func (s *Session) servers() []state.Server {
	var out []state.Server
	for _, srv := range s.view.Servers() {
		if s.sel.HasServer(srv.Config.Name) {
			out = append(out, srv)
		}
	}
	return out
}

func (s *Session) listed(srv state.Server) listed {
	l := listed{Name: srv.Config.Name, Enabled: srv.Config.Enabled}
	outcome := srv.Outcome
	switch {
	case !srv.Config.Enabled:
		l.Status = "disabled"
	case outcome.Status == "":
		outcome.Status = upstream.Transient // configured since the last sync: the next one loads it
		fallthrough
	default:
		l.Status = string(outcome.Status)
		l.Message = upstream.Message(srv.Config.Name, outcome)
	}
	var counts lock.Counts
	for i := srv.First; i < srv.First+srv.Tools; i++ {
		if s.sel.Tools.Has(i) {
			counts.Add(s.view.Status(i))
		}
	}
	if counts.Locked() > 0 {
		l.Tools = &counts
	}
	return l
}
