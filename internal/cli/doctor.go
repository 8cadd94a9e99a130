package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A doctorCmd is portcullis doctor.
type doctorCmd struct {
	askFlags
	Probe         bool `help:"Connect to each server of the folder's config from this machine, and check DNS, connection, certificate, credential and MCP. No tool is called."`
	Fix           bool `help:"Fix what is safe to fix: file modes, files that a killed gateway left, lines of .gitignore."`
	AllowCommands bool `help:"With --probe: start the servers of the config that have a command. They run with your user's rights."`
}

// Validate implements kong's check of flags.
func (c doctorCmd) Validate() error {
	switch {
	case c.URL != "" && c.Probe:
		return errors.New("--probe asks servers from this machine, but the gateway of --url asks " +
			"them itself: leave out one of the flags; doctor --url prints the last answers that " +
			"the gateway got")
	case c.URL != "" && c.Fix:
		return errors.New("--fix changes files of a folder, and --url names none: leave one of " +
			"them out")
	case c.AllowCommands && !c.Probe:
		return errors.New("--allow-commands starts servers that --probe asks: add --probe")
	}
	return c.gatewayFlags.Validate()
}

// An examination is the result of one run of doctor.
type examination struct {
	OK       bool             `json:"ok"` // no fault remains
	Findings []doctor.Finding `json:"findings"`
	Asked    []askedServer    `json:"asked,omitempty"` // with --probe

	env *environment
	cmd doctorCmd
	cfg *config.Config // nil: no valid config
}

// An askedServer is a server and its answer.
type askedServer struct {
	Server   string         `json:"server"`
	Status   outcome.Status `json:"status"`
	Reason   string         `json:"reason,omitempty"`
	Tools    int            `json:"tools"`
	Duration string         `json:"took"`
	// the address of the gateway that reported the server's state; "": the doctor asked the server
	// itself
	Gateway string `json:"gateway,omitempty"`
}

// Run prints the problems.
func (c doctorCmd) Run(ctx context.Context, env *environment) error {
	x := &examination{Findings: []doctor.Finding{}, env: env, cmd: c}
	if c.URL != "" {
		x.fromOutside(ctx)
	} else {
		if !folder.HasGateway(c.folder()) {
			return fmt.Errorf("doctor: %w", folder.NoGateway(c.folder()))
		}
		x.folder(ctx)
	}
	if c.Probe && ctx.Err() == nil {
		if err := x.probe(ctx); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.New("doctor: interrupted; nothing was fixed")
	}
	if c.Fix {
		x.fix()
	}
	return x.print()
}

// find adds a finding with the command line to run, and returns the finding. The caller may change
// it until the next call of find.
func (x *examination) find(code, about, cause, run string) *doctor.Finding {
	f := doctor.Find(code, about, cause)
	f.Run = run
	x.Findings = append(x.Findings, f)
	return &x.Findings[len(x.Findings)-1]
}

// fix repairs what it can, and marks each repaired finding.
func (x *examination) fix() {
	for i := range x.Findings {
		f := &x.Findings[i]
		if f.Fix == nil {
			continue
		}
		if err := f.Fix(); err != nil {
			f.Cause += " It could not be fixed: " + err.Error()
			continue
		}
		f.Fixed = true
	}
}

// print prints the findings, the worst first.
func (x *examination) print() error {
	n, fixable := map[doctor.Severity]int{}, 0
	for _, f := range x.Findings {
		if f.Fixed {
			continue
		}
		n[f.Severity]++
		if f.Fix != nil {
			fixable++
		}
	}
	x.OK = n[doctor.Fault] == 0
	order := []doctor.Severity{doctor.Fault, doctor.Warning, doctor.Note}
	slices.SortStableFunc(x.Findings, func(a, b doctor.Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	err := x.cmd.print(x.env.stdout, x, func(w io.Writer) { x.show(w, n, fixable) })
	if err == nil && !x.OK {
		err = fmt.Errorf("doctor: %s; what to do about each is above", text.Count(n[doctor.Fault], "fault"))
	}
	return err
}

func (x *examination) show(w io.Writer, n map[doctor.Severity]int, fixable int) {
	for _, f := range x.Findings {
		what := string(f.Severity)
		if f.Fixed {
			what = "fixed"
		}
		fmt.Fprintf(w, "%-8s %s: %s\n", what, f.Code, inLine(f.About))
		lineOf(w, "", f.Cause)
		if !f.Fixed {
			lineOf(w, "do: ", f.Do)
			lineOf(w, "run: ", f.Run)
		}
	}
	if len(x.Asked) > 0 {
		well, there := 0, 0
		for _, s := range x.Asked {
			if s.Gateway != "" {
				there++
			}
			if s.Status == outcome.Available {
				well++
			}
		}
		line := fmt.Sprintf("%s asked, %d answered correctly", text.Count(len(x.Asked), "server"),
			well)
		if there > 0 {
			line += fmt.Sprintf("; the gateway reported %s", text.Count(there, "server"))
		}
		fmt.Fprintln(w, line)
	}
	var parts []string
	for _, s := range []doctor.Severity{doctor.Fault, doctor.Warning, doctor.Note} {
		if n[s] > 0 {
			parts = append(parts, text.Count(n[s], string(s)))
		}
	}
	switch {
	case len(parts) == 0:
		fmt.Fprintln(w, "nothing is wrong")
	case fixable > 0 && !x.cmd.Fix:
		fmt.Fprintf(w, "%s; --fix corrects %d of them\n", strings.Join(parts, ", "), fixable)
	default:
		fmt.Fprintln(w, strings.Join(parts, ", "))
	}
}

// lineOf prints one indented line of a finding. The line may contain foreign text.
func lineOf(w io.Writer, name, s string) {
	if s = text.Clip(text.Line(s), 1500); s != "" {
		fmt.Fprintf(w, "         %s%s\n", name, s)
	}
}

// commandLine returns a command line that runs this program on this folder.
func (x *examination) commandLine(command string) string {
	if x.cmd.Dir == "" || x.cmd.Dir == "." {
		return "portcullis " + command
	}
	return "portcullis " + command + " --dir " + connect.Shell(x.cmd.Dir)
}
