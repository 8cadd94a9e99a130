package decide

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A History is a page of the audit lines about one tool, prompt or resource, newest first.
type History struct {
	ID      string  `json:"id" doc:"server:tool, server:prompt:name or server:resource:uri"`
	Events  []Event `json:"events" nullable:"false"`
	Partial bool    `json:"partial,omitempty" doc:"the request reached the maximum of audit lines that it may read before the page was full; next continues there"`
	Next
}

// An Event is a line of the audit about one item.
type Event struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor" doc:"who decided; sync: no person, a sync saw a definition"`
	Action string    `json:"action"`
	Hash   tool.Hash `json:"hash,omitempty" doc:"hash of the definition"`
	From   tool.Hash `json:"from,omitempty" doc:"hash of the previous definition, if that definition was different"`
	Note   string    `json:"note,omitempty"`
	Tell   bool      `json:"tell,omitempty" doc:"agents may see the note"`
	Rev    int64     `json:"rev" doc:"revision of the record after the event"`
}

// History returns a page of the item's history, even if no server lists the item any more.
func (d *Service) History(ctx context.Context, id tool.ID, p Paging) (History, error) {
	out := History{ID: id.String(), Events: []Event{}}
	if err := p.check(); err != nil {
		return out, err
	}
	entry, err := p.entry("history", 1)
	if err != nil {
		return out, err
	}
	from, err := parseLine(entry[0])
	if err != nil {
		return out, err
	}
	var lines []approval.Entry // one more than the page shows: it has the previous hash of the last event
	at, end := from.Cursor, false
	for reads := 0; reads < linesReads && len(lines) <= p.Limit && !end; reads++ {
		page, err := d.approvals.Audit(ctx, id.Server, at, linesRead)
		if err != nil {
			return out, err
		}
		end = len(page) < linesRead
		for _, e := range page {
			if at = e.Cursor(); e.ID() == id {
				lines = append(lines, e)
			}
		}
	}
	if len(lines) == 0 && end && p.After == "" {
		if _, listed := d.View(ctx).Find(id); !listed {
			if _, err := d.approvals.Get(ctx, id); errors.Is(err, approval.ErrNotFound) {
				return out, errNoItem(id.Kind)
			}
		}
	}
	shown := lines[:min(p.Limit, len(lines))]
	for n, e := range shown {
		event := Event{At: e.At, Actor: e.Actor, Action: e.Action, Hash: e.Hash, Note: e.Note, Tell: e.Tell, Rev: e.Rev}
		if n+1 < len(lines) && changesDefinition(e.Action) && lines[n+1].Hash != e.Hash {
			event.From = lines[n+1].Hash
		}
		out.Events = append(out.Events, event)
	}
	switch {
	case len(lines) > p.Limit:
		last := shown[p.Limit-1]
		out.Next.Next = text.NewCursor("history", line{last.Cursor(), last.Server}.text())
	case !end:
		out.Partial, out.Next.Next = true, text.NewCursor("history", line{at, id.Server}.text())
	}
	return out, nil
}

// changesDefinition reports whether lines of this action say that a sync saw another definition.
func changesDefinition(action string) bool {
	return slices.Contains([]string{approval.ActionChange, approval.ActionRestore, approval.ActionMove, approval.ActionRename, approval.ActionRemember, approval.ActionRecover}, action)
}
