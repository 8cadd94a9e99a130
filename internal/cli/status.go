package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A statusCmd is portcullis status.
type statusCmd struct {
	askFlags
}

// errFailing is the error of the status of a gateway that cannot serve.
var errFailing = errors.New("status: the gateway cannot serve: no tool can be called until the " +
	"problems above are fixed")

// A gatewayStatus is the state of a gateway in the API's terms.
type gatewayStatus struct {
	Gateway  place                         `json:"gateway"`
	Health   client.Answer[decide.Health]  `json:"health"`
	Config   client.Answer[decide.Config]  `json:"config"`
	Servers  []decide.Server               `json:"servers"`
	Requests client.Answer[admin.Requests] `json:"requests,omitzero"`
	Stops    client.Answer[decide.Stops]   `json:"stops,omitzero"`
	// parts that this caller may not see, and why
	Unseen []string `json:"unseen,omitempty"`

	waiting []decide.Upgrade
}

// A place identifies the gateway.
type place struct {
	URL     string `json:"url,omitempty"` // absent: none runs, and the folder was opened
	Folder  string `json:"folder,omitempty"`
	Version string `json:"version,omitempty"`
}

// Run prints the state of the gateway.
func (c statusCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	s := &gatewayStatus{}
	if err := s.read(ctx, g, c.placeFlags); err != nil {
		return err
	}
	err := c.print(env.stdout, s, func(w io.Writer) { s.show(w, time.Now()) })
	if err == nil && s.Health.Value.Status == state.Failing {
		err = errFailing
	}
	return err
}

// read reads the state from the gateway.
func (s *gatewayStatus) read(ctx context.Context, g *gateway, f placeFlags) error {
	var err error
	if s.Health, err = client.Health.Do(ctx, g.Client, nil, nil); err != nil {
		return err
	}
	if s.Config, err = client.Config.Do(ctx, g.Client, nil, nil); err != nil {
		return err
	}
	var failed []error
	// a caller without this right still sees the other parts
	optional := func(path string, err error) {
		if r, ok := errors.AsType[*client.Refusal](err); ok {
			s.Unseen, err = append(s.Unseen, path+": "+inLine(r.Error())), nil
		}
		failed = append(failed, err)
	}
	s.Requests, err = client.Requests.Do(ctx, g.Client, url.Values{"state": {"open"}}, nil)
	optional("/admin/requests", err)
	s.Stops, err = client.Stops.Do(ctx, g.Client, nil, nil)
	optional("/admin/stop", err)
	waits, err := g.List(ctx, decide.Filter{Status: string(lock.PendingApproval)}, 1, nil)
	optional("/admin/tools", err)
	s.waiting = waits.Upgrades
	s.Servers, err = g.Servers(ctx)
	if err = errors.Join(append(failed, err)...); err != nil {
		return err
	}
	s.Gateway = place{Version: s.Health.Value.Version}
	if f.URL == "" {
		s.Gateway.Folder = f.folder()
	}
	if !g.IsEmbedded() {
		s.Gateway.URL = g.Base
	}
	return nil
}

// show prints the state for people. Foreign texts have their own lines.
func (s *gatewayStatus) show(w io.Writer, now time.Time) {
	h := s.Health.Value
	row(w, "gateway", "%s", s.Gateway)
	row(w, "health", "%s", howItIs(h))
	row(w, "config", "%s", fileInUse(h.State.Config, "none in use"))
	row(w, "policy", "%s", fileInUse(h.State.Policy, "none, so policy permits everything")+rulesOf(s.Config.Value))
	switch at := h.State.SyncedAt; {
	case at.IsZero():
		row(w, "sync", "none has succeeded yet, so servers and tools are not known")
	default:
		row(w, "sync", "%s, the newest that succeeded", text.Ago(now.Sub(at)))
		s.showServers(w)
		s.showTools(w)
		rows(w, "new version", upgradeLines(s.waiting), "portcullis tools --status pending_approval")
	}
	s.showOpen(w)
	for _, r := range h.Reasons {
		row(w, "problem", "%s", text.Clip(text.Line(r.Message), 1000))
		row(w, "what to do", "%s", text.Clip(text.Line(actionOf(r, s.Gateway.URL != "")), 1000))
	}
	if n := len(h.State.Warnings); n > 0 {
		row(w, "warnings", "%d: portcullis check lists them", n)
	}
}

// actionOf returns the next step for a reason, and who does it.
func actionOf(r state.Reason, runs bool) string {
	// without a running gateway, no sync starts automatically
	if r.Code == "catalog_missing" && !runs {
		return "Run portcullis serve, which loads the servers every minute, or portcullis sync, " +
			"which loads them once."
	}
	return r.Action
}

func (p place) String() string {
	version := " (version " + inLine(cmp.Or(p.Version, "unknown")) + ")"
	switch {
	case p.Folder == "":
		return inLine(p.URL) + version
	case p.URL == "":
		return "folder " + inLine(p.Folder) + ", on which none runs now: portcullis serve starts it" + version
	}
	return "folder " + inLine(p.Folder) + ", which answers at " + inLine(p.URL) + version
}

// howItIs returns the gateway's condition in words.
func howItIs(h decide.Health) string {
	switch n := text.Count(len(h.Reasons), "problem"); h.Status {
	case state.OK:
		if len(h.Reasons) > 0 {
			return "ok, with " + n
		}
		return "ok"
	case state.Degraded:
		return "degraded: it serves, with " + n
	case state.Failing:
		return "failing: it cannot serve, " + n
	}
	return inLine(string(h.Status))
}

// fileInUse returns which version of an operator's file is in use.
func fileInUse(p decide.Part, none string) string {
	switch {
	case p.Version == "" && p.Stale:
		return "the stored file is not in use, and no earlier one is known"
	case p.Version == "":
		return none
	case !p.Stale:
		return fmt.Sprintf("version %.12s", p.Version)
	}
	why := p.Error
	if n := len(p.Faults); n > 0 {
		why = fmt.Sprintf("the file as it is now (version %.12s) has %s; the first: %s", p.Stored, text.Count(n, "fault"), p.Faults[0])
	}
	return text.Clip(text.Line(fmt.Sprintf("version %.12s, the last good one: %s", p.Version, why)), 500)
}

// rulesOf returns how many rules and entries of lists deny.
func rulesOf(c decide.Config) string {
	denying := 0
	for _, r := range c.Rules {
		if !r.Allow && r.Always+r.Some > 0 {
			denying++
		}
	}
	if denying == 0 {
		return ""
	}
	return fmt.Sprintf("; rules and entries of lists that deny: %d", denying)
}

// showServers prints the states of the servers, and the problems of each.
func (s *gatewayStatus) showServers(w io.Writer) {
	n := map[string]int{}
	var failing []string
	for _, srv := range s.Servers {
		if !srv.Enabled {
			n["off"]++
			continue
		}
		n[srv.Outcome.Status]++
		if srv.Outcome.Status != string(outcome.Available) {
			failing = append(failing, text.Clip(text.Line(cmp.Or(srv.Outcome.Message,
				"MCP server '"+srv.Name+"' has not been loaded yet.")), 300))
		}
	}
	row(w, "servers", "%s", counted(n, string(outcome.Available), string(outcome.Transient), string(outcome.Permanent), string(outcome.Denied), "unknown", "off"))
	rows(w, "", failing, "portcullis doctor --probe says why")
}

// showTools prints how many tools, prompts and resources have which status.
func (s *gatewayStatus) showTools(w io.Writer) {
	for _, kind := range []string{"tools", "resources", "prompts"} {
		open, n := "open", map[string]int{}
		if kind == "tools" {
			open = "callable"
		}
		for _, srv := range s.Servers {
			of := map[string]*lock.Counts{"tools": &srv.Tools, "prompts": srv.Prompts, "resources": srv.Resources}[kind]
			if of == nil {
				continue
			}
			n[open] += of.Callable
			for _, status := range lock.Statuses() {
				n[string(status)] += decide.CountOf(*of, string(status))
			}
		}
		words := []string{open}
		for _, status := range lock.Statuses() {
			words = append(words, string(status))
		}
		if len(n) > 0 || kind == "tools" {
			row(w, kind, "%s", counted(n, words...))
		}
	}
}

// showOpen prints the open requests of agents, and the stops.
func (s *gatewayStatus) showOpen(w io.Writer) {
	switch n := len(s.Requests.Value.Requests); {
	case s.Requests.IsZero():
	case n == 0:
		row(w, "requests", "none open")
	default:
		var ids []string
		for _, r := range s.Requests.Value.Requests {
			ids = append(ids, r.ID+" of "+whoAsks(r)+": "+whatIsAsked(r))
		}
		row(w, "requests", "%d open", n)
		for i := range ids {
			ids[i] = inLine(ids[i])
		}
		rows(w, "", ids, "portcullis requests")
	}
	if !s.Stops.IsZero() && len(s.Stops.Value.Stops) == 0 {
		row(w, "stops", "none")
	}
	var stops []string
	for _, one := range s.Stops.Value.Stops {
		stops = append(stops, text.Clip(text.Line(one.String()+" is "+one.Note()), 300))
	}
	rows(w, "stops", stops, "portcullis stop")
	for _, unseen := range s.Unseen {
		row(w, "not shown", "%s", strings.TrimSpace(unseen))
	}
}
