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
	name := a.text("name", operation == "get", maxQuery, "the name of a server as operation list gives it")
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
	for _, srv := range s.servers() {
		if operation == "list" || srv.Config.Name == name {
			out.Servers = append(out.Servers, s.listed(srv))
		}
	}
	out.Total = len(out.Servers)
	if operation == "get" && out.Total == 0 {
		return s.refuse("Server " + quote(name) + " was not found. upstream_servers with operation list names all there are.")
	}
	return s.own(out)
}

// servers returns the servers that exist for this request: those with a tool in the
// selection, and those whose tools are not known yet, unless the request narrows
// to something else.
func (s *Session) servers() []state.Server {
	var out []state.Server
	for _, srv := range s.view.Servers() {
		if s.shows(srv) {
			out = append(out, srv)
		}
	}
	return out
}

func (s *Session) shows(srv state.Server) bool {
	for i := srv.First; i < srv.First+srv.Tools; i++ {
		if s.sel.Tools.Has(i) {
			return true
		}
	}
	return false
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
