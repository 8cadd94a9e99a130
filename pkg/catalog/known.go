package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxBaselines is how many baselines [Current] names: those of configured servers, and of
// others as far as there is room.
const maxBaselines = 5000

// A Known is what the next sync has to know of a configured server.
type Known struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`       // [approval.BaselineKey] of its tools
	From     string `json:"from,omitempty"` // the name that it had before, until its first list under this one
}

// readTaken collects which servers had their first list, from the last catalog and from what an
// earlier version of the program stored by name. The store may be lost.
func (r *run) readTaken(ctx context.Context) error {
	r.taken = map[string]bool{}
	for _, key := range r.prev.Baselines {
		r.taken[key] = true
	}
	if r.prev.Servers != nil {
		return nil
	}
	names := map[string]bool{}
	for _, l := range r.lists {
		names[l.server.Name] = true
	}
	for _, o := range r.prev.Outcomes {
		names[o.ServerID] = true
	}
	old, err := r.approvals.OldBaselines(ctx, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return fmt.Errorf("read baselines: %w", err)
	}
	for _, b := range old {
		r.taken[b.Key()] = true
		if err := r.approvals.PutBaseline(ctx, b); err != nil {
			return fmt.Errorf("store baseline of %q: %w", b.Server, err)
		}
	}
	return nil
}

// firstList reports whether l's tools are approved in mode on_change, and returns the baseline to
// store afterwards; nil: it is stored already. A second name of a server, a name that belonged to
// another server and a server whose baseline was lost have had their first list.
func (r *run) firstList(ctx context.Context, l *list) (first bool, due *approval.Baseline, err error) {
	if len(l.tools) == 0 {
		return false, nil, nil
	}
	has, err := r.hasBaseline(ctx, l.identity)
	if err != nil {
		return false, nil, err
	}
	taken := r.taken[l.key]
	if r.taken[l.key] = true; has {
		return false, nil, nil
	}
	return !taken && !r.reused(l), &approval.Baseline{Identity: l.identity, Kind: approval.Tools, URL: l.server.URL, Server: l.server.Name, At: r.began}, nil
}

// reused reports whether l's name belonged to another server that listed tools.
func (r *run) reused(l *list) bool {
	for _, k := range r.prev.Servers {
		if k.Name == l.server.Name && k.Identity != l.key && r.taken[k.Identity] {
			return true
		}
	}
	for id, held := range r.records {
		if id.Server == l.server.Name && held.URL != "" && !approval.SameServer(held.URL, l.server.URL) {
			return true
		}
	}
	return false
}

// hasBaseline reports whether the first list of a server was taken.
func (s *Syncer) hasBaseline(ctx context.Context, identity string) (bool, error) {
	if s.baselines[identity] {
		return true, nil
	}
	_, err := s.approvals.Baseline(ctx, identity, approval.Tools)
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read baseline of %q: %w", identity, err)
	}
	s.baselines[identity] = true
	return true, nil
}

// renamed returns the names that configured servers had before, by the new one. A server was
// renamed if one name of it left the config as one other came: with a second name that is still
// there, or two that came, it is unknown which decisions are meant. A rename counts until the
// server lists its tools under the new name.
func (r *run) renamed() map[string]string {
	configured := map[string]string{} // identity by name
	for _, l := range r.lists {
		configured[l.server.Name] = l.key
	}
	known := map[string]bool{}
	left := map[string][]Known{} // by identity
	stays := map[string]bool{}
	from := map[string]string{}
	for _, k := range r.prev.Servers {
		known[k.Name] = true
		switch identity, ok := configured[k.Name]; {
		case !ok:
			left[k.Identity] = append(left[k.Identity], k)
		case identity == k.Identity:
			stays[k.Identity] = true
			if k.From != "" {
				from[k.Name] = k.From
			}
		}
	}
	came := map[string][]string{}
	for name, identity := range configured {
		if !known[name] {
			came[identity] = append(came[identity], name)
		}
	}
	for identity, names := range came {
		if gone := left[identity]; len(names) == 1 && len(gone) == 1 && !stays[identity] {
			from[names[0]] = cmp.Or(gone[0].From, gone[0].Name)
		}
	}
	return from
}

// recordBefore returns the item's record under the name that its server had before; nil: none.
func (r *run) recordBefore(from string, id tool.ID) *approval.Record {
	if from == "" {
		return nil
	}
	id.Server = from
	return r.records[id]
}

// lockedElsewhere returns whether the item is disabled under another name that l's server has, or
// had in the last version, and what of it is blocked there: neither a second name nor two that
// change places open it.
func (r *run) lockedElsewhere(l *list, id tool.ID) (disabled bool, blocked []approval.Remembered) {
	for _, k := range r.prev.Servers {
		if k.Identity == l.key && k.Name != l.server.Name {
			id.Server = k.Name
			if held := r.records[id]; held != nil {
				disabled = disabled || held.Disabled
				blocked = append(blocked, held.Blocked...)
			}
		}
	}
	return disabled, blocked
}

// unlisted returns the tools that l does not list now, and that a person decided about under the
// name that its server had before: once the server has listed its tools under the new name, the old
// one is forgotten, and one of them may come back.
func (r *run) unlisted(l *list, from string) (due []observation) {
	if from == "" {
		return nil
	}
	listed := make(map[tool.ID]bool, len(l.tools))
	for _, t := range l.tools {
		listed[t.Definition.ID(from)] = true
	}
	for id, before := range r.records {
		if id.Server != from || listed[id] || before.DecidedAt.IsZero() && !before.Disabled {
			continue
		}
		seen := approval.Seen{
			ID: tool.ID{Server: l.server.Name, Name: id.Name, Kind: id.Kind}, URL: l.server.URL,
			Definition: before.Current, Hash: before.CurrentHash, From: before, Now: r.began,
		}
		held := r.records[seen.ID]
		if _, _, changed := approval.Observe(held, seen); changed {
			due = append(due, observation{l, held, seen})
		}
	}
	return due
}

// describe writes into cur what the next sync has to know of the servers.
func (r *run) describe(cur *Current) {
	from := r.renamed()
	for _, key := range r.prev.Baselines { // those of a sync that ended meanwhile
		r.taken[key] = true
	}
	cur.Servers = []Known{}
	keys := map[string]bool{}
	for _, l := range r.lists {
		k := Known{Name: l.server.Name, Identity: l.key}
		if !l.loaded || len(l.tools) == 0 {
			k.From = from[k.Name]
		}
		cur.Servers = append(cur.Servers, k)
		if r.taken[k.Identity] {
			keys[k.Identity] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.taken)) {
		if len(keys) < maxBaselines {
			keys[key] = true
		}
	}
	cur.Baselines = slices.Sorted(maps.Keys(keys))
}
