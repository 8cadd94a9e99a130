package decide

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// A ServerDetail is one server with its settings in the config.
type ServerDetail struct {
	Server
	Settings   Settings          `json:"settings"`
	Connection *connection.State `json:"connection,omitempty" doc:"the gateway's sign-in at the server; absent: it has none"`
	SignIn     bool              `json:"sign_in,omitempty" doc:"the gateway can sign in to the server"`
	Activity   *ServerActivity   `json:"activity,omitempty" doc:"loads and calls of the last 24 hours; absent: calls run in another process"`
}

// Settings are the settings of a server in the current config, without what may be secret: header
// values, and the path and query of its URL.
type Settings struct {
	Host          string   `json:"host,omitempty" doc:"scheme and host of its URL; path and query may hold a credential and are not shown"`
	Command       string   `json:"command,omitempty" doc:"the command line of a server that is a program, without what may be a credential"`
	Cwd           string   `json:"cwd,omitempty" doc:"the program's working directory"`
	Env           []string `json:"env,omitempty" doc:"names of the program's environment variables in the config"`
	Headers       []string `json:"headers,omitempty" doc:"names of the headers that the gateway sends to the server"`
	EnabledTools  []string `json:"enabled_tools,omitempty" doc:"absent: all tools are enabled"`
	DisabledTools []string `json:"disabled_tools,omitempty"`

	Resources         string   `json:"resources,omitempty" enum:"manual,on_change,off" doc:"approval of prompts and resources, if it differs from the approval of tools"`
	DisabledPrompts   []string `json:"disabled_prompts,omitempty"`
	DisabledResources []string `json:"disabled_resources,omitempty"`
	UnlistedResources bool     `json:"unlisted_resources,omitempty" doc:"agents can read resources that the server does not list, at the server's own endpoint"`

	Timeout     string   `json:"timeout" doc:"timeout of one call"`
	BehindProxy string   `json:"behind_proxy,omitempty"`
	Session     string   `json:"session" doc:"agent: each agent has its own session with the server; shared: all agents have one"`
	Annotations []string `json:"annotations,omitempty" doc:"globs of the tools whose annotations the operator sets"`
}

// Server returns the named server.
func (d *Service) Server(ctx context.Context, name string) (ServerDetail, error) {
	v := d.View(ctx)
	s, err := d.findServer(ctx, v, name)
	if err != nil {
		return ServerDetail{}, err
	}
	c, err := d.Connection(ctx, s.Config)
	seen := serverOf(v, s)
	addRefusal(&seen, s.Config, d.refusals(ctx))
	seen.LastMessage = d.lastMessage(ctx, name)
	return ServerDetail{
		seen, settingsOf(s.Config), c, d.CanSignIn() && s.Config.SignsIn(), d.activity(ctx, name),
	}, err
}

// findServer returns the configured server with a name.
func (d *Service) findServer(
	ctx context.Context, v *state.View, name string,
) (state.Server, error) {
	for _, s := range d.configured(ctx, v) {
		if s.Config.Name == name {
			return s, nil
		}
	}
	return state.Server{}, Refuse(http.StatusNotFound, "no server of this name is "+
		"configured; the list of servers has all configured servers")
}

// CanSync reports whether this program can run syncs.
func (d *Service) CanSync() bool { return d.o.Syncer != nil }

func settingsOf(c config.Server) Settings {
	out := Settings{
		Headers: slices.Sorted(maps.Keys(c.Headers)), EnabledTools: c.EnabledTools, DisabledTools: c.DisabledTools,
		Resources: c.Resources, DisabledPrompts: c.DisabledPrompts, DisabledResources: c.DisabledResources, UnlistedResources: c.UnlistedResources,
		Timeout: c.Timeout.String(), BehindProxy: c.BehindProxy, Session: c.Session,
	}
	if p := c.Command; p != nil {
		out.Command, out.Cwd, out.Env = p.Display(), p.Dir, slices.Sorted(maps.Keys(p.Env))
	} else {
		out.Host = config.HostOf(c.URL)
	}
	for _, o := range c.Annotations {
		out.Annotations = append(out.Annotations, o.Glob)
	}
	return out
}
