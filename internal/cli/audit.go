package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// An auditCmd is portcullis audit.
type auditCmd struct {
	placeFlags

	Since  string `default:"24h" placeholder:"TIME" help:"Start: 24h, 7d, 2026-11-22 or 2026-11-22T14:00:00Z; \"\" is the beginning. Without it, 24h."`
	Until  string `placeholder:"TIME" help:"End, in the same forms."`
	Actor  string `placeholder:"NAME" help:"Only lines of this person or agent."`
	Action string `placeholder:"ACTION" help:"Only this action: approve, block, token_made, …; for calls: allowed, locked, tier, scope, stopped, refused."`
	Server string `placeholder:"NAME" help:"Only lines about this server."`
	Tool   string `placeholder:"TOOL" help:"Only lines about this tool: its id, or its name at any server."`
	Kind   string `enum:"call,deed," default:"" placeholder:"KIND" help:"Only calls of agents (call), or only actions of people (deed)."`

	Follow bool `short:"f" help:"Print the last 10 lines, the oldest first, and continue with new lines until Ctrl-C. For table and json."`

	Output string `short:"o" enum:"table,json,csv" default:"table" placeholder:"FORMAT" help:"table, for people; json: one JSON object a line, as docs/audit.md has them; csv, made safe for spreadsheets."`
}

// Run prints the lines.
func (c auditCmd) Run(ctx context.Context, env *environment) error {
	query := decide.AuditQuery{Actor: c.Actor, Action: c.Action, Server: c.Server, Tool: c.Tool, Kind: c.Kind, Since: c.Since, Until: c.Until}
	if _, err := query.Filter(time.Now()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if c.Follow && (c.Output == "csv" || c.Until != "") {
		return errors.New("audit: -f goes on with new lines, so leave out --until and -o csv")
	}
	buffered := bufio.NewWriter(env.stdout)
	var out audit.Writer = people{buffered, columnsOf(env.stdout)}
	var err error
	switch c.Output {
	case "json":
		out = audit.JSONL{W: buffered}
	case "csv":
		if out, err = audit.NewCSV(buffered); err != nil {
			return err
		}
	}
	n := 0
	g, err := gatewayFlags{c.placeFlags, osUser()}.view(ctx, env, "audit")
	if err != nil {
		return err
	}
	defer g.close()
	if c.Follow {
		if err := g.needsRunning("audit -f", c.placeFlags); err != nil {
			return err
		}
		f := &auditTail{query: query, out: out}
		return env.follow(ctx, func() error {
			return errors.Join(f.read(ctx, g), buffered.Flush())
		})
	}
	err = g.EachLine(ctx, query, func(l audit.Line) error { n++; return out.Write(l) })
	if err = errors.Join(err, buffered.Flush()); err == nil && n == 0 {
		_, err = fmt.Fprintln(env.stderr, "no line matches")
	}
	return err
}

const (
	tailLines   = 10              // before the new lines
	tailOverlap = 5 * time.Second // lines of several writers may come a little out of order
)

// An auditTail reads lines that are new since its last read.
type auditTail struct {
	query decide.AuditQuery
	out   audit.Writer
	began bool
	seen  map[string]time.Time // the lines of the overlap, as JSON
}

// errEnough ends the reading of lines.
var errEnough = errors.New("enough lines")

// read writes the new lines, the oldest first.
func (t *auditTail) read(ctx context.Context, g *gateway) error {
	var fresh []audit.Line
	next := map[string]time.Time{}
	err := g.EachLine(ctx, t.query, func(l audit.Line) error {
		key, err := json.Marshal(l)
		if err != nil {
			return err
		}
		next[string(key)] = l.Time
		if _, old := t.seen[string(key)]; !old && (t.began || len(fresh) < tailLines) {
			fresh = append(fresh, l)
		}
		if !t.began && len(fresh) == tailLines && l.Time.Before(fresh[0].Time.Add(-tailOverlap)) {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for _, l := range slices.Backward(fresh) {
		if err := t.out.Write(l); err != nil {
			return err
		}
	}
	times := slices.Collect(maps.Values(next))
	newest := slices.MaxFunc(append(times, time.Time{}), time.Time.Compare)
	if t.seen, t.began = next, true; !newest.IsZero() {
		t.query.Since = newest.Add(-tailOverlap).UTC().Format(time.RFC3339Nano)
	}
	return nil
}

// people writes lines as text for people: a row for each line of the audit. The rows fit a terminal
// of the given number of columns; 0 is no limit.
type people struct {
	w       io.Writer
	columns int
}

// auditWidths are the usual widths of the columns: time, actor, action, subject and hash.
var auditWidths = []int{len("2006-01-02 15:04:05 UTC"), 16, 16, 32, 12}

func (p people) Write(l audit.Line) error {
	who, what, about, hash := l.Actor, l.Action, l.Tool, string(l.Hash)
	if l.Kind == audit.KindCall {
		who, what, hash = l.Agent, strings.TrimSpace("call "+l.Decision+" "+l.Status), string(l.Definition)
	}
	if about == "" {
		about = l.Subject
	}
	cells := []string{
		l.Time.UTC().Format("2006-01-02 15:04:05 UTC"),
		inLine(who), inLine(what), inLine(about), text.Clip(inLine(hash), 12),
	}
	more := ""
	if note := text.Clip(text.Line(l.Note), 500); note != "" {
		more += `  "` + note + `"`
	}
	if l.Source != "" {
		more += "  from " + inLine(l.Source)
	}
	if p.columns == 0 { // a long text moves the rest of its line
		for i, c := range cells {
			cells[i] = fmt.Sprintf("%-*s", auditWidths[i], c)
		}
		_, err := fmt.Fprintln(p.w, strings.TrimRight(strings.Join(cells, "  ")+more, " "))
		return err
	}
	var out strings.Builder
	writeRow(&out, narrowed(auditWidths, p.columns), cells)
	for _, part := range breakText(strings.TrimLeft(more, " "), max(1, p.columns-4)) {
		if part != "" {
			fmt.Fprintln(&out, "    "+part)
		}
	}
	_, err := io.WriteString(p.w, out.String())
	return err
}
