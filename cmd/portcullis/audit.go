package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/audit"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// An auditCmd is portcullis audit.
type auditCmd struct {
	Dir string `placeholder:"DIR" help:"Folder of a gateway that does not run now; with --url, the folder that holds the admin key."`
	URL string `placeholder:"URL" help:"Gateway that runs, such as http://127.0.0.1:8080. The credential is the admin key of --dir, or PORTCULLIS_TOKEN."`

	Since  string `default:"24h" placeholder:"TIME" help:"From when on: 24h, 7d, 2026-11-22 or 2026-11-22T14:00:00Z; \"\" is from the beginning. Without it, 24h."`
	Until  string `placeholder:"TIME" help:"Until when, in the same forms."`
	Actor  string `placeholder:"NAME" help:"Only what this person did or this agent called."`
	Action string `placeholder:"ACTION" help:"Only this: approve, block, token_made, …; or of calls allowed, locked, tier, scope, stopped, refused."`
	Server string `placeholder:"NAME" help:"Only what is about this server."`
	Tool   string `placeholder:"TOOL" help:"Only what is about this tool: its id, or its name at whatever server."`
	Kind   string `enum:"call,deed," default:"" placeholder:"KIND" help:"Only calls of agents (call), or only deeds of people (deed)."`

	JSON bool `xor:"format" help:"One JSON object a line, as docs/audit.md has them."`
	CSV  bool `xor:"format" help:"Comma-separated values, made safe for spreadsheets."`
}

// Help implements kong's longer help.
func (auditCmd) Help() string {
	return `Prints who did what, the newest first. A folder can be read while no gateway runs on it; ask one that
runs with --url. The exit code is 1 if lines are missing: what is missing is said on standard error.`
}

// Run prints the lines.
func (c auditCmd) Run(ctx context.Context, env *environment) error {
	if c.Dir == "" && c.URL == "" {
		return errors.New("audit: --dir or --url is needed: the folder of a gateway, or the address of one that runs")
	}
	query := decide.AuditQuery{Actor: c.Actor, Action: c.Action, Server: c.Server, Tool: c.Tool, Kind: c.Kind, Since: c.Since, Until: c.Until}
	f, err := query.Filter(time.Now())
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	buffered := bufio.NewWriter(env.stdout)
	var out audit.Writer = people{buffered}
	switch {
	case c.JSON:
		out = audit.JSONL{W: buffered}
	case c.CSV:
		if out, err = audit.NewCSV(buffered); err != nil {
			return err
		}
	}
	n := 0
	each := func(l audit.Line) error { n++; return out.Write(l) }
	if c.URL != "" {
		err = c.ask(ctx, env, query, each)
	} else {
		err = c.read(ctx, f, each)
	}
	if err = errors.Join(err, buffered.Flush()); err == nil && n == 0 {
		_, err = fmt.Fprintln(env.stderr, "no line is like this")
	}
	return err
}

// read reads the lines of a folder.
func (c auditCmd) read(ctx context.Context, f audit.Filter, each func(audit.Line) error) error {
	path := filepath.Join(c.Dir, approvalsFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("audit: there is no %s in %q, so no gateway has run there", approvalsFile, c.Dir)
	}
	store, err := bolt.Open(path, nil)
	if err != nil {
		return fmt.Errorf("audit: %w; if a gateway runs on the folder, ask it: add --url with its address, such as http://127.0.0.1:8080", err)
	}
	states := state.New(dir.New(c.Dir), store, &state.Options{})
	desk := decide.New(states, store, decide.Options{Deeds: store.Deeds(), Calls: callsIn(c.Dir)})
	return errors.Join(desk.EachLine(ctx, f, each), store.Close())
}

// ask reads the lines of a gateway that runs.
func (c auditCmd) ask(ctx context.Context, env *environment, query decide.AuditQuery, each func(audit.Line) error) error {
	res, err := running{"audit", c.URL, c.Dir}.ask(ctx, env, "/admin/audit.jsonl", query.Values(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for lines := json.NewDecoder(res.Body); ; {
		var l audit.Line
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("audit: the answer broke off, and older lines are missing: %w", err)
		case l.Kind == audit.KindIncomplete:
			return fmt.Errorf("audit: %s", text.Line(l.Note))
		}
		if err := each(l); err != nil {
			return err
		}
	}
}

// people writes lines for people.
type people struct{ w io.Writer }

func (p people) Write(l audit.Line) error {
	who, what, about, hash := l.Actor, l.Action, l.Tool, string(l.Hash)
	if l.Kind == audit.KindCall {
		who, what, hash = l.Agent, strings.TrimSpace("call "+l.Decision+" "+l.Status), string(l.Definition)
	}
	if about == "" {
		about = l.Subject
	}
	line := fmt.Sprintf("%s  %-16s  %-16s  %-32s  %-12s", l.Time.UTC().Format("2006-01-02 15:04:05"), inLine(who), inLine(what), inLine(about), text.Clip(inLine(hash), 12))
	if note := text.Clip(text.Line(l.Note), 500); note != "" {
		line += `  "` + note + `"`
	}
	if l.Source != "" {
		line += "  from " + inLine(l.Source)
	}
	_, err := fmt.Fprintln(p.w, strings.TrimRight(line, " "))
	return err
}

// callsIn reads the lines of agents' calls that a gateway on the folder wrote.
func callsIn(dir string) audit.Reader { return audit.Folder(filepath.Join(dir, auditFolder)) }
