package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The result of a sync for a server depends on its lists, its records, the config and the last
// catalog. If all four are the same as when this process last found no change, the sync parses no
// list, and decodes and compares no record.

// An unchangedServer is the result for one server whose items and records equal the catalog's.
type unchangedServer struct {
	lists    string // [outcome.Outcome.Lists]
	records  string // mark of its records: see [approval.Store]
	kinds    map[approval.Kind]bool
	firsts   []string // [approval.BaselineKey] of the first lists of these kinds
	restored int
}

// An unchangedCache has the unchanged servers for one catalog and one config.
type unchangedCache struct {
	catalog, config string // SHA-256; version
	servers         map[string]*unchangedServer
}

// cachedServer returns the cache entry of l, or nil if there is no usable entry. The cache has no
// servers whose records depend on each other, and no renamed servers.
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

// alone reports whether the unit is one configured server without other names.
func (u *unit) alone() bool {
	return len(u.servers) == 1 && len(u.names) == 1 && u.bases == nil
}

// isUnchanged reports whether the lists and records of the unit's server equal its cache entry. If
// not, it sets the tools that the load omitted, because the lists equal the catalog's. It may also
// have read the unit's records, which it then keeps in u.records.
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

// tookFirst reports whether this process knows that the store has these baselines. If so, it adds
// them to r.taken.
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

// readRecords reads the records of one of the unit's names, unless mark shows that they have not
// changed; see [approval.Store].
func (u *unit) readRecords(ctx context.Context, name, mark string) error {
	records, now, err := u.approvals.RecordsIfChanged(ctx, name, mark)
	switch {
	case errors.Is(err, approval.ErrUnchanged):
		return err // ErrUnchanged is common and no fault, so it needs no text
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

// cacheServer keeps the result for l for the next run. The items and records of l must equal the
// catalog's. A server with refused items is not cached, because each sync reports these. If a
// record is written after the mark was read, the next run reads another mark.
func (u *unit) cacheServer(l *serverRun) {
	if l.loaded && u.alone() && l.digest != "" && !l.refused {
		l.toCache = &unchangedServer{lists: l.digest, records: u.recordsMark, kinds: l.kinds, restored: l.restored}
		for kind := range l.kinds {
			l.toCache.firsts = append(l.toCache.firsts, approval.BaselineKey(l.identity, kind))
		}
	}
}

// cacheServers keeps the results of unchanged servers.
func (r *run) cacheServers(saved *Snapshot) {
	r.cache = unchangedCache{saved.sha256, r.config.Version, map[string]*unchangedServer{}}
	for _, l := range r.servers {
		if l.input.Same && l.toCache != nil {
			r.cache.servers[l.server.Name] = l.toCache
		}
	}
}
