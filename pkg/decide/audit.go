package decide

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
)

// Audit returns a page of the audit lines of one server, or with "" those of every configured one
// merged, the newest first. The server need not be configured any more.
func (d *Desk) Audit(ctx context.Context, server string, p Paging) (entries []approval.Entry, next Next, err error) {
	last, err := p.line("audit")
	if err != nil {
		return nil, next, err
	}
	servers := []string{server}
	if server == "" {
		servers = nil
		for _, s := range d.View(ctx).Servers() {
			servers = append(servers, s.Config.Name)
		}
	}
	lists := make([][]approval.Entry, len(servers))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWriters)
	for i, server := range servers {
		g.Go(func() (err error) {
			lists[i], err = d.approvals.Audit(gctx, server, last.cursorIn(server), p.Limit+1)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, next, err
	}
	all := append([]approval.Entry{}, slices.Concat(lists...)...)
	slices.SortFunc(all, func(x, y approval.Entry) int {
		return cmp.Or(y.Written.Compare(x.Written), cmp.Compare(x.Server, y.Server), cmp.Compare(y.ID().Key(), x.ID().Key()))
	})
	if len(all) > p.Limit {
		e := all[p.Limit-1]
		all, next.Next = all[:p.Limit], line{e.Cursor(), e.Server}.cursor("audit")
	}
	return all, next, nil
}

// A line names the line of the audit at which a page ends. Lines of all servers are sorted by when
// they were written, then by server.
type line struct {
	approval.Cursor
	server string
}

// cursor returns the cursor after the line in a list of lines.
func (l line) cursor(list string) string {
	return cursorOf(list, l.Written.Format(time.RFC3339Nano)+"\x00"+l.server+"\x00"+l.Tool)
}

// line returns the last line of the page before; the zero line for the first page.
func (p Paging) line(list string) (line, error) {
	entry, err := p.entry(list)
	if err != nil || entry == "" {
		return line{}, err
	}
	if parts := strings.Split(entry, "\x00"); len(parts) == 3 {
		if written, err := time.Parse(time.RFC3339Nano, parts[0]); err == nil {
			return line{approval.Cursor{Written: written, Tool: parts[2]}, parts[1]}, nil
		}
	}
	return line{}, errCursor()
}

// cursorIn returns the cursor in a server's lines from which those after l follow.
func (l line) cursorIn(server string) approval.Cursor {
	switch p := l.Cursor; {
	case p == (approval.Cursor{}) || server == l.server:
		return p
	case server < l.server: // all of its lines of that moment were shown
		return approval.Cursor{Written: p.Written}
	default: // none was
		return approval.Cursor{Written: p.Written.Add(1)}
	}
}
