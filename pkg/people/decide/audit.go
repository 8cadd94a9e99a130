package decide

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// Decisions returns the newest lines about the items of all configured servers, at most limit.
func (d *Service) Decisions(ctx context.Context, limit int) ([]approval.Entry, error) {
	all, _, err := d.entries(ctx, namesOf(d.View(ctx)), line{}, limit)
	return all[:min(limit, len(all))], err
}

// namesOf returns the names of the configured servers.
func namesOf(v *state.View) (names []string) {
	for _, s := range v.Servers() {
		names = append(names, s.Config.Name)
	}
	return names
}

// entries merges the lines about items of the servers after last, newest first. It reads at most
// limit lines of each server, once. It returns at least limit lines, unless there are no more, and
// reports whether there may be more.
func (d *Service) entries(
	ctx context.Context,
	servers []string,
	last line,
	limit int,
) (all []approval.Entry, more bool, err error) {
	lists := make([][]approval.Entry, len(servers))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWriters)
	for i, server := range servers {
		g.Go(func() (err error) {
			lists[i], err = d.approvals.Audit(gctx, server, last.cursorIn(server), limit)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	all = slices.Concat(lists...)
	slices.SortFunc(all, compareEntries)
	end := len(all) // a server may have unread lines that are older than its last one here
	for _, list := range lists {
		if n := len(list); n == limit {
			at, _ := slices.BinarySearchFunc(all[:end], list[n-1], compareEntries)
			end, more = min(end, at+1), true
		}
	}
	return all[:end], more, nil
}

// compareEntries sorts entries by time, the newest first, then by server.
func compareEntries(x, y approval.Entry) int {
	return cmp.Or(
		y.Written.Compare(x.Written),
		cmp.Compare(x.Server, y.Server),
		cmp.Compare(y.ID().Key(), x.ID().Key()),
	)
}

// A line identifies the audit line at which a page ends. Lines of all servers are sorted by time,
// then by server.
type line struct {
	approval.Cursor
	server string
}

// text returns the line as part of a cursor.
func (l line) text() string {
	return l.Written.Format(time.RFC3339Nano) + "\x00" + l.server + "\x00" + l.Tool
}

// parseLine parses what text returns. "" is the zero line.
func parseLine(entry string) (line, error) {
	if entry == "" {
		return line{}, nil
	}
	if parts := strings.Split(entry, "\x00"); len(parts) == 3 {
		if written, err := time.Parse(time.RFC3339Nano, parts[0]); err == nil {
			return line{approval.Cursor{Written: written, Tool: parts[2]}, parts[1]}, nil
		}
	}
	return line{}, errCursor()
}

// cursorIn returns l as a cursor in the lines of one server. The lines after it are older than l.
func (l line) cursorIn(server string) approval.Cursor {
	switch p := l.Cursor; {
	case p == (approval.Cursor{}) || server == l.server:
		return p
	case server < l.server: // earlier pages have all lines of this server with that time
		return approval.Cursor{Written: p.Written}
	default: // no page has them yet
		return approval.Cursor{Written: p.Written.Add(1)}
	}
}
