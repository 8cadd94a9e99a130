package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxBaselines limits the baselines that [Current] names. It names all baselines of the configured
// servers, and baselines of other servers only until the total is maxBaselines.
const maxBaselines = 5000

// A ServerState is the state of a configured server for the next sync.
type ServerState struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`        // [approval.BaselineKey] of its tools, by [approval.Identity]
	Place    string `json:"place,omitempty"` // the same key, by [approval.BaselineIdentity]; "": it equals Identity
	From     string `json:"from,omitempty"`  // its old name, if it was renamed and has not listed tools under Name yet

	Since     time.Time `json:"since,omitzero"`      // time from which its lists are unchanged; zero: unknown
	Restored  int       `json:"restored,omitempty"`  // this server's part of [Current.Restored]
	Forgotten bool      `json:"forgotten,omitempty"` // the store and the catalog lost its decisions, see [Current]; stays while it is disabled
	Found     string    `json:"found,omitempty"`     // ETag of its load result, if workers load servers
}

// readTaken adds to r.taken the baselines of the servers that had a first list. It reads them from
// the last catalog, because the store may have lost them, and from the baselines that an earlier
// version of the program stored by server name.
func (r *run) readTaken(ctx context.Context, of []*serverRun) error {
	for _, key := range r.prev.Baselines {
		r.taken[key] = true
	}
	names := map[string]bool{}
	if r.prev.Servers == nil {
		for _, l := range of {
			names[l.server.Name] = true
		}
		for _, o := range r.prev.Outcomes {
			names[o.ServerID] = true
		}
	}
	old, err := r.firsts.OldBaselines(ctx, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return fmt.Errorf("read baselines: %w", err)
	}
	old = slices.DeleteFunc(old, func(b approval.Baseline) bool { return r.taken[b.Key()] })
	for _, b := range old {
		r.taken[b.Key()] = true
	}
	return r.putBaselines(ctx, old)
}

// kinds are the kinds of lists; each kind has its own first list, whose items need no person's
// approval in mode on_change.
var kinds = []approval.Kind{approval.Tools, approval.Prompts, approval.Resources}

// firstLists returns the kinds of which l has sent its first list, so that mode on_change approves
// the items, and the baselines to store afterwards. The keys of has are the kinds of which l lists
// at least one item. A list does not count as the first one in three cases: the server had its
// first list under another name, another server had l's name before (reused), or the store has lost
// the baseline and the last catalog still names it.
func (r *run) firstLists(ctx context.Context, l *serverRun, has map[approval.Kind]bool, reused bool) (first map[approval.Kind]bool, due []approval.Baseline, err error) {
	first = map[approval.Kind]bool{}
	for _, kind := range kinds {
		if !has[kind] {
			continue
		}
		key := approval.BaselineKey(l.identity, kind)
		stored, err := r.hasBaseline(ctx, l.identity, kind)
		if err != nil {
			return nil, nil, err
		}
		taken := false
		if !stored {
			if taken, err = r.hasEarlier(ctx, l, kind); err != nil {
				return nil, nil, err
			}
		}
		r.mu.Lock()
		taken = taken || r.taken[key]
		r.taken[key] = true
		r.mu.Unlock()
		if stored {
			continue
		}
		first[kind] = !taken && !reused
		due = append(due, approval.Baseline{Identity: l.identity, Kind: kind, URL: l.server.URL, Server: l.server.Name, At: r.began})
	}
	return first, due, nil
}

// hasEarlier reports whether l or another configured server with l's [approval.BaselineIdentity]
// had its first list under an earlier version of the program, which stored baselines by
// [approval.Identity].
func (r *run) hasEarlier(ctx context.Context, l *serverRun, kind approval.Kind) (bool, error) {
	for _, other := range l.unit.servers {
		exact := approval.Identity(other.server.URL)
		if other.place != l.place || exact == l.identity {
			continue
		}
		r.mu.Lock()
		taken := r.taken[approval.BaselineKey(exact, kind)]
		r.mu.Unlock()
		if taken {
			return true, nil
		}
		if stored, err := r.hasBaseline(ctx, exact, kind); stored || err != nil {
			return stored, err
		}
	}
	return false, nil
}

// reused reports whether l's name belonged to another server that listed something.
func (u *unit) reused(l *serverRun) bool {
	before := u.known[l.server.Name]
	u.mu.Lock()
	listed := before.Identity != l.key &&
		slices.ContainsFunc(before.baselines(), func(key string) bool { return u.taken[key] })
	u.mu.Unlock()
	for id, held := range u.records {
		listed = listed || id.Server == l.server.Name &&
			held.URL != "" && !approval.SameServer(held.URL, l.server.URL)
	}
	return listed
}

// place returns k's [approval.BaselineKey] by [approval.BaselineIdentity].
func (k ServerState) place() string { return cmp.Or(k.Place, k.Identity) }

// baselines returns the keys under which the baselines of k are stored, if they exist.
func (k ServerState) baselines() []string {
	hash, _, _ := strings.Cut(k.place(), "#")
	keys := make([]string, len(kinds))
	for i, kind := range kinds {
		keys[i] = hash + "#" + string(kind)
	}
	return keys
}

// hasBaseline reports whether the store has the baseline of a server for a kind of list.
func (r *run) hasBaseline(ctx context.Context, identity string, kind approval.Kind) (bool, error) {
	key := approval.BaselineKey(identity, kind)
	r.mu.Lock()
	known := r.baselines[key]
	r.mu.Unlock()
	if known {
		return true, nil
	}
	_, err := r.firsts.Baseline(ctx, identity, kind)
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read baseline of %q: %w", identity, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.baselines[key] = true
	return true, nil
}

// linkNames finds the other names of the configured servers. A server was renamed if one name of
// its URL left the config and one other name was added. If a second name stayed, or two names were
// added, linkNames assumes no rename, because it cannot know which decisions belong to which name.
// The old name counts until the server lists its tools under the new name.
func (r *run) linkNames() {
	configured := map[string]bool{}
	places := map[string]string{} // by identity
	names := map[string]int{}     // how many were added or stay, by identity
	for _, l := range r.servers {
		configured[l.server.Name], places[l.key] = true, l.place
		if k, known := r.known[l.server.Name]; !known || k.Identity == l.key {
			names[l.key]++
		}
	}
	left := map[string][]string{}   // by identity
	others := map[string][]string{} // by place
	for _, k := range r.prev.Servers {
		place := cmp.Or(places[k.Identity], k.place()) // an earlier version did not store Place
		others[place] = append(others[place], k.Name)
		if k.From != "" {
			others[place] = append(others[place], k.From)
		}
		if !configured[k.Name] {
			left[k.Identity] = append(left[k.Identity], cmp.Or(k.From, k.Name))
		}
	}
	for _, l := range r.servers {
		l.from, l.others = "", others[l.place]
		if k, known := r.known[l.server.Name]; k.Identity == l.key {
			l.from = k.From
		} else if gone := left[l.key]; !known && names[l.key] == 1 && len(gone) == 1 {
			l.from = gone[0]
		}
	}
}

// otherRecords returns the records of the item under the other names of l's server. With them, a
// tool that is disabled or blocked under one name stays locked under a second name, and after a
// swap of two names.
func (u *unit) otherRecords(l *serverRun, id tool.ID) (others []*approval.Record) {
	for _, id.Server = range l.others {
		if held := u.records[id]; held != nil && id.Server != l.server.Name {
			others = append(others, held)
		}
	}
	return others
}

// unlisted returns the tools that l does not list now and that a person decided about under the
// server's old name. The run records these tools now, because it forgets the old name once the
// server has listed tools under the new name.
func (u *unit) unlisted(l *serverRun) (due []observation) {
	listed := make(map[tool.ID]bool, len(l.tools))
	for _, t := range l.tools {
		listed[t.Definition.ID(l.from)] = true
	}
	for id, before := range u.records {
		if id.Server != l.from || listed[id] || before.DecidedAt.IsZero() && !before.Disabled {
			continue
		}
		id.Server = l.server.Name
		seen := approval.Observation{
			ID: id, URL: l.server.URL, Release: releaseOf(l.server),
			Definition: before.Current, Hash: before.CurrentHash, From: before, Now: u.began,
		}
		held := u.records[id]
		if _, _, changed := approval.Observe(held, seen); changed {
			due = append(due, observation{l, held, seen})
		}
	}
	return due
}

// describe writes the state of the servers into cur, for the next sync.
func (r *run) describe(cur *Current) {
	for _, key := range r.prev.Baselines { // another sync may have added keys since r began
		r.taken[key] = true
	}
	cur.Servers = []ServerState{}
	keys := map[string]bool{}
	for _, l := range r.servers {
		k := ServerState{
			Name: l.server.Name, Identity: l.key, Place: l.place, Since: l.since, Restored: l.restored,
			Forgotten: l.forgot, Found: l.etag,
		}
		if k.Place == k.Identity {
			k.Place = ""
		}
		if !l.loaded || !l.listed {
			k.From = l.from
		}
		cur.Servers = append(cur.Servers, k)
		for _, key := range k.baselines() {
			if r.taken[key] {
				keys[key] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.taken)) {
		if len(keys) < maxBaselines {
			keys[key] = true
		}
	}
	cur.Baselines = slices.Sorted(maps.Keys(keys))
}
