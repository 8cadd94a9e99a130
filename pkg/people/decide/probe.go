package decide

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Prober loads a server that the gateway does not use. *boot.Program is one.
type Prober interface {
	// Probe lists the items of a server once, and keeps nothing. It resolves only references that
	// the config already uses for the same host.
	Probe(ctx context.Context, s config.Server) outcome.Outcome
}

// probeTime is the maximum time of a probe.
const probeTime = 20 * time.Second

// maxProbed limits the tools that a probe shows.
const maxProbed = 50

// A ServerProbe is what a probe found.
type ServerProbe struct {
	Outcome  Outcome
	Tools    []ProbedTool
	Total    int // tools, including those that Tools omits
	Others   int // prompts and resources
	Severe   int // tools with a severe finding
	Warnings []string
}

// A ProbedTool is a tool that a probe found.
type ProbedTool struct {
	Name     string
	Tier     tool.Tier
	Findings []Finding
}

// EntryText returns the entry of a server for the config, as text to copy.
func EntryText(name string, draft config.Draft) (string, error) {
	entry, err := draft.Entry()
	if err != nil {
		return "", invalid("%s", err)
	}
	return string(rawjson.Quote(name)) + ": " + rawjson.Indent(entry.Bytes(), "", "  "), nil
}

// described returns the server of a draft as the config would have it, with the warnings about it.
func (d *Service) described(
	ctx context.Context, name string, draft config.Draft, old bool,
) (s config.Server, warnings []string, err error) {
	var data []byte
	if old {
		var stored StoredConfig
		if stored, err = d.StoredConfig(ctx); err == nil {
			data, err = d.withServer(stored, name, draft, true)
		}
	} else {
		var entry rawjson.Object
		if entry, err = draft.Entry(); err != nil {
			err = invalid("%s", err)
		}
		servers := rawjson.Object{{Name: name, Value: entry.Bytes()}}
		file := rawjson.Object{{Name: "mcpServers", Value: servers.Bytes()}}
		data = file.Bytes()
	}
	if err != nil {
		return s, nil, err
	}
	cfg, err := config.Parse(data)
	if err != nil {
		return s, nil, invalid("the entry has faults: %s", faultText(err))
	}
	at := config.JoinPath("mcpServers", name)
	for _, w := range cfg.Warnings {
		if strings.HasPrefix(w.Path, at) {
			warnings = append(warnings, w.Path+": "+w.Message)
		}
	}
	s, _ = cfg.Server(name)
	return s, warnings, nil
}

// Probe asks a server for its items, as the draft describes it. One probe runs at a time. A probe
// can run a command, so it does not run without its audit event.
func (d *Service) Probe(
	ctx context.Context, name string, draft config.Draft, old bool,
) (ServerProbe, error) {
	out := ServerProbe{}
	s, warnings, err := d.described(ctx, name, draft, old)
	switch {
	case err != nil:
		return out, err
	case d.o.Prober == nil:
		return out, Refuse(http.StatusNotImplemented, "this process cannot probe a server")
	case !d.probing.TryLock():
		return out, Refuse(http.StatusTooManyRequests, "this probe was not started, because another "+
			"probe is running: try again in 20 seconds")
	}
	defer d.probing.Unlock()
	shown := settingsOf(s)
	if d.Record(ctx, audit.Line{
		Action: audit.ActionServerProbed, Subject: audit.AboutServer + ":" + name,
		Note: cmp.Or(shown.Host, shown.Command),
	}) != nil {
		return out, Refuse(http.StatusServiceUnavailable, "nothing was probed, because the audit "+
			"cannot be written; try again in a minute")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	o := d.o.Prober.Probe(ctx, s)
	if o.Reason == outcome.ReasonNeedsCommand {
		return out, Refuse(http.StatusConflict, "the command was not started: a command is probed "+
			"only where portcullis serve runs with --allow-commands")
	}
	out.Outcome, out.Warnings = OutcomeOf(name, o), warnings
	out.Total, out.Others = len(o.Tools), len(o.Items)
	names := namesIn(d.View(ctx)).For(name)
	for _, t := range o.Tools {
		found := finding.Scan(t, nil, names)
		if finding.Severe(found) {
			out.Severe++
		}
		if len(out.Tools) == maxProbed {
			continue
		}
		p := ProbedTool{Name: t.Name, Tier: t.Annotations.Tier()}
		for _, f := range found {
			p.Findings = append(p.Findings, Finding{Finding: f, Message: f.Message()})
		}
		out.Tools = append(out.Tools, p)
	}
	return out, nil
}
