package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// What a sync finds out of a server follows from what the server lists, its records, the config and the
// last catalog. So if all four are what they were when this process found out that nothing has changed, the
// same follows: nothing is parsed, no record is decoded and none compared.

// An unchangedServer is what was found out of one server whose items and records are as the catalog
// has them.
type unchangedServer struct {
	lists    string // [outcome.Outcome.Lists]
	records  string // their mark: see [approval.Store]
	kinds    map[approval.Kind]bool
	firsts   []string // [approval.BaselineKey] of the first list of each of these
	restored int
}

// An unchangedCache has the unchanged servers as of one catalog and one config.
type unchangedCache struct {
	catalog, config string // SHA-256; version
	servers         map[string]*unchangedServer
}

// cachedServer returns what the cache has of l; nil: nothing. Servers whose records say something
// of each other, and those that changed their names, are not cached.
func (r *run) cachedServer(l *serverRun) *unchangedServer {
	if r.base == nil || r.base.sha256 != r.cache.catalog || r.config.Version != r.cache.config {
		return nil
	}
	if !l.unit.alone() || l.since.IsZero() || r.known[l.server.Name].Identity != l.key {
		return nil
	}
	s, ok := r.base.Server(l.server.Name)
	if !ok || !s.Enabled || !l.server.Enabled || r.base.misses(l.server.Name) {
		return nil
	}
	return r.cache.servers[l.server.Name]
}

// alone reports whether the unit is one configured server, of whose other names nothing is known.
func (u *unit) alone() bool {
	return len(u.servers) == 1 && len(u.names) == 1 && u.bases == nil
}

// isUnchanged reports whether all that is known of the unit's server is as it was. If not, the list
// has what the server lists, and the unit the records, if they were read.
func (u *unit) isUnchanged(ctx context.Context) (bool, error) {
	if !u.alone() || !u.servers[0].loaded {
		return false, nil
	}
	l := u.servers[0]
	if held := l.cached; held != nil && held.lists == l.digest && u.tookFirst(held.firsts) {
		err := u.inTurn(ctx, func() error { return u.readRecords(ctx, l.server.Name, held.records) })
		if errors.Is(err, approval.ErrUnchanged) {
			l.forgot = u.known[l.server.Name].Forgotten
			l.input = ServerInput{Name: l.server.Name, Enabled: l.server.Enabled, Same: true}
			l.listed, l.kinds, l.restored, l.toCache = len(held.kinds) > 0, held.kinds, held.restored, held
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	if l.omitted { // the server lists what the catalog has
		l.tools = u.base.inputs(l.server.Name)
		for i := range l.tools {
			l.tools[i].Record = nil
		}
	}
	return false, nil
}

// tookFirst reports whether it is known that these first lists were taken.
func (r *run) tookFirst(keys []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if !r.baselines[key] {
			return false
		}
	}
	for _, key := range keys {
		r.taken[key] = true
	}
	return true
}

// readRecords reads the records of one of the unit's names, unless they are those of mark.
func (u *unit) readRecords(ctx context.Context, name, mark string) error {
	records, now, err := u.approvals.RecordsIfChanged(ctx, name, mark)
	switch {
	case errors.Is(err, approval.ErrUnchanged):
		return err // it is no fault, and comes for each server: no text is made of it
	case err != nil:
		return fmt.Errorf("read approvals: %w", err)
	}
	u.mine.Lock()
	defer u.mine.Unlock()
	if u.recordsMark = now; u.records == nil {
		u.records = map[tool.ID]*approval.Record{}
	}
	for i := range records {
		u.remember(&records[i])
	}
	return nil
}

// cacheServer notes for the next run what follows for l, whose items and records are as the catalog
// has them. What was turned away here is reported again each time. A record that was written since
// its mark was read has another one.
func (u *unit) cacheServer(l *serverRun) {
	if l.loaded && u.alone() && l.digest != "" && !l.refused {
		l.toCache = &unchangedServer{lists: l.digest, records: u.recordsMark, kinds: l.kinds, restored: l.restored}
		for kind := range l.kinds {
			l.toCache.firsts = append(l.toCache.firsts, approval.BaselineKey(l.identity, kind))
		}
	}
}

// cacheServers keeps what is known of the servers that the catalog has as they are.
func (r *run) cacheServers(saved *Snapshot) {
	r.cache = unchangedCache{saved.sha256, r.config.Version, map[string]*unchangedServer{}}
	for _, l := range r.servers {
		if l.input.Same && l.toCache != nil {
			r.cache.servers[l.server.Name] = l.toCache
		}
	}
}
