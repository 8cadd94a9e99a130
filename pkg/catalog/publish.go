package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// storeAgain is how old the object of an unchanged shard may get before it is written again, so
// that a bucket rule which deletes old catalogs spares the one in use.
const storeAgain = 24 * time.Hour

// publish builds the catalog, stores it and moves current.json to it. If another sync moved the
// catalog meanwhile it goes on from the new one, unless that sync began later.
func (r *run) publish(ctx context.Context) error {
	built := ""
	_, err := document.Retry(ctx, object.ErrConflict, func() (_ string, err error) {
		if built != "" {
			r.unsettle()
			if err := r.readBase(ctx); err != nil {
				return "", err
			}
			if done, err := r.otherCatalogStays(ctx, built); done || err != nil {
				return "", err
			}
			if err := r.workAgain(ctx); err != nil {
				return "", err
			}
		}
		built, err = r.move(ctx)
		return "", err
	})
	return err
}

// move builds the catalog, stores it and moves current.json to it, if nobody else has moved that
// since it was read. It returns the SHA-256 of the catalog that was built.
func (r *run) move(ctx context.Context) (sha256 string, err error) {
	next, err := r.next(ctx)
	if err != nil {
		return "", err
	}
	cur := r.current()
	again := r.supersede(ctx, &cur, next)
	if r.base != nil {
		cur.Shards = r.base.stored(next, r.began.Add(-storeAgain))
	}
	saved, err := Save(ctx, r.objects, next, cur, r.ifMatch)
	if err == nil && len(again) > 0 {
		err = storeMissing(ctx, r.objects, again)
	}
	if err != nil {
		return next.sha256, err
	}
	r.report.Stored = len(cur.Shards) < len(next.shards)
	r.snap, r.built, r.words = saved, saved.sha256, r.config.Value.Words
	r.latest.Store(saved)
	r.memorizeAll(saved)
	return next.sha256, nil
}

// otherCatalogStays reports whether the catalog that another sync published stays.
func (r *run) otherCatalogStays(ctx context.Context, sha256 string) (bool, error) {
	if r.base != nil {
		cur := r.base.current
		if cur.StartedAt.Equal(r.began) && cur.SHA256 == sha256 {
			return true, nil // our own write, whose answer was lost
		}
		if cur.StartedAt.After(r.began) {
			r.report.Superseded = true
			return true, nil
		}
	}
	if ConfigFile.Load(ctx, r.objects, r.config, r.began).Version != r.config.Version {
		return false, errConfigMoved
	}
	return false, nil
}

// unsettle gives back what servers listed that have it as it is in base, which is about to be another one.
func (r *run) unsettle() {
	for _, l := range r.lists {
		switch {
		case !l.loaded:
		case !l.same:
			l.tools = slices.DeleteFunc(l.input.Tools, func(t ToolInput) bool { return !l.outcome.Read(t.Definition) })
		case r.base != nil:
			s, _ := r.base.Server(l.server.Name)
			l.tools = slices.DeleteFunc(r.base.inputs(s), func(t ToolInput) bool { return !l.outcome.Read(t.Definition) })
		}
		for i := range l.tools {
			l.tools[i].Record = nil
		}
	}
}

// workAgain works the units off against another base.
func (r *run) workAgain(ctx context.Context) error {
	before := r.report.Recovered
	p := newPipeline(ctx, func(ctx context.Context, u *unit) error { return u.again(ctx) })
	for _, u := range r.group() {
		p.add(u)
	}
	if err := p.end(); err != nil || r.report.Recovered == before {
		return err
	}
	return r.afterLoss(ctx)
}

// input returns the catalog as it should be: what servers list now, else what they listed last.
func (r *run) input(ctx context.Context) Input {
	in := Input{Words: r.config.Value.Words, Yield: func() { r.pause(ctx) }}
	for _, l := range r.lists {
		in.Servers = append(in.Servers, l.next())
	}
	return in
}

// compare counts the tools, and the other items, that l's server listed before and does not list now,
// and returns those of lists that could not be read: they stay.
func (l *list) compare(before []ToolInput) (gone, goneItems int, unread []ToolInput) {
	now := make(map[tool.ID]bool, len(l.tools))
	for _, t := range l.tools {
		now[t.Definition.ID(l.server.Name)] = true
	}
	for _, t := range before {
		switch {
		case now[t.Definition.ID(l.server.Name)]:
		case !l.outcome.Read(t.Definition):
			unread = append(unread, t)
		case t.Definition.Kind != tool.Tool:
			goneItems++
		default:
			gone++
		}
	}
	return gone, goneItems, unread
}

func (r *run) current() Current {
	cur := Current{
		Config:    r.config.Version,
		StartedAt: r.began,
		SyncedAt:  r.o.Now().UTC().Round(0),
		Restored:  r.restoredRecords(),
		Forgotten: r.forgotten(),
		Rebuilt:   r.rebuilt(),
		Outcomes:  r.outcomes(),
		Unknown:   r.prev.Unknown,
	}
	r.describe(&cur)
	return cur
}

// outcomes are those of the servers that were ever tried.
func (r *run) outcomes() []outcome.Outcome {
	out := []outcome.Outcome{}
	for _, l := range r.lists {
		if l.outcome.Status != "" {
			out = append(out, l.outcome)
		}
	}
	return out
}
