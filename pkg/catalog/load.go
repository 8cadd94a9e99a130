package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// maxFetches is how many shards are read and opened at once.
const maxFetches = 8

// Load returns the current catalog. held is the caller's catalog, or nil. Load returns held if
// nothing is newer, and shares its unchanged shards. It returns [object.ErrNotFound] if no sync has
// ended yet, and [ErrUnusable] if the stored catalog cannot be used.
func Load(ctx context.Context, objects object.Store, held *Snapshot) (*Snapshot, error) {
	return new(Loading).Load(ctx, objects, held)
}

// A Loading is a Load that may take several attempts: each attempt uses the shards that earlier
// attempts read. The zero Loading is ready to use. It is not safe for concurrent use.
type Loading struct {
	read    map[string]*shard // by SHA-256; of a catalog that is not complete yet
	missing int               // how many shards of it the last attempt has not read

	// Load calls OnFetch, if it is not nil, before it reads shards, which may take long.
	OnFetch func()
}

// Load returns the same as the function [Load], but continues from earlier attempts.
func (l *Loading) Load(ctx context.Context, objects object.Store, held *Snapshot) (*Snapshot, error) {
	l.missing = 0
	s, _, _, err := load(ctx, objects, held, l, decodeReader)
	if err == nil || errors.Is(err, ErrUnusable) { // it is complete, or only a sync can repair it
		l.read = nil
	}
	return s, err
}

// Read returns how many shards were read for a catalog that is not complete yet.
func (l *Loading) Read() int { return len(l.read) }

// Missing returns how many shards the last attempt began to read and has not read.
func (l *Loading) Missing() int { return l.missing }

// load works like [Load], with open as the function that opens a shard. It also returns
// current.json and the ETag to replace it, even if the shards cannot be used. If only some shards
// cannot be used, the error is [ErrUnusable] and the snapshot has the other shards. The snapshot
// records which servers are missing, and only a sync may use it.
func load(ctx context.Context, objects object.Store, held *Snapshot, l *Loading, open func([]byte) (*shard, error)) (s *Snapshot, cur Current, match string, err error) {
	known := ""
	if held != nil {
		known = held.etag
	}
	o, match, err := getCurrent(ctx, objects, known)
	if errors.Is(err, object.ErrNotModified) {
		return held, held.current, match, nil
	}
	if err != nil {
		return nil, cur, "", fmt.Errorf("load catalog: %w", err)
	}
	if cur, err = parseHead(o.Data); err != nil {
		return nil, cur, match, err
	}
	if held != nil && held.sha256 == cur.SHA256 {
		if cur, err = parseCurrent(o.Data); err != nil {
			return nil, cur, match, err
		}
		return held.with(cur, o.ETag), cur, match, nil
	}
	shards, cur, err := l.body(ctx, fetcher(objects, held, open), held, cur, o.Data)
	if err != nil && !errors.Is(err, ErrUnusable) {
		return nil, cur, match, err
	}
	usable, missing := present(shards, cur)
	if len(usable) == 0 {
		return nil, cur, match, err
	}
	if bad := ordered(usable); bad != nil {
		return nil, cur, match, bad
	}
	s = newSnapshot(usable)
	s.missing = missing
	return s.with(cur, o.ETag), cur, match, err
}

// body reads the shards that head names, and at the same time parses the rest of current.json from
// data. It returns usable shards even with an error.
func (l *Loading) body(ctx context.Context, fetch fetch, held *Snapshot, head Current, data []byte) (shards []*shard, cur Current, err error) {
	var wg sync.WaitGroup
	var bad error
	wg.Go(func() { cur, bad = parseCurrent(data) })
	shards, err = l.shards(ctx, fetch, held, head)
	if wg.Wait(); bad != nil {
		return nil, cur, bad
	}
	return shards, cur, err
}

// A fetch reads a shard and opens it.
type fetch func(context.Context, Shard) (*shard, error)

// fetcher returns the function that reads a shard and opens it. At the start of a process, it maps
// the object if the store supports this, which needs less memory and time. Later reads map nothing,
// because a mapping keeps the file on the disk as long as the process runs.
func fetcher(objects object.Store, held *Snapshot, open func([]byte) (*shard, error)) fetch {
	get := func(ctx context.Context, key string) ([]byte, error) {
		o, err := objects.Get(ctx, key, "")
		return o.Data, err
	}
	if m, ok := objects.(object.Mapper); ok && held == nil {
		get = m.Map
	}
	return func(ctx context.Context, listed Shard) (*shard, error) {
		data, err := get(ctx, Key(listed.SHA256))
		switch {
		case errors.Is(err, object.ErrNotFound):
			return nil, fmt.Errorf("load catalog %s: %w: its object is missing", listed.SHA256, ErrUnusable)
		case errors.Is(err, object.ErrDamaged):
			return nil, fmt.Errorf("load catalog %s: %w: %w", listed.SHA256, ErrUnusable, err)
		case err != nil:
			return nil, fmt.Errorf("load catalog %s: %w", listed.SHA256, err)
		}
		part, err := open(data)
		if err != nil {
			return nil, fmt.Errorf("load catalog %s: %w", listed.SHA256, err)
		}
		if part.sha256 != "" && part.sha256 != listed.SHA256 {
			return nil, fmt.Errorf("load catalog %s: %w: its SHA-256 is %s", listed.SHA256, ErrUnusable, part.sha256)
		}
		part.sha256 = listed.SHA256
		return part, nil
	}
}

// shards returns the shards of cur. It takes shards from held and from earlier attempts, and
// fetches the others, some at once. A shard that cannot be used is nil, and the error is
// [ErrUnusable]. After any other error, shards stops reading, and l keeps the shards that were
// read.
func (l *Loading) shards(ctx context.Context, fetch fetch, held *Snapshot, cur Current) ([]*shard, error) {
	have := map[string]*shard{}
	if held != nil {
		for _, part := range held.shards {
			have[part.sha256] = part
		}
	}
	of := func(sum string) *shard { return cmp.Or(have[sum], l.read[sum]) }
	shards, faults := make([]*shard, len(cur.Shards)), make([]error, len(cur.Shards))
	g, fetchCtx := errgroup.WithContext(ctx)
	g.SetLimit(maxFetches)
	fetched := false
	for i, listed := range cur.Shards {
		if shards[i] = of(listed.SHA256); shards[i] != nil {
			continue
		}
		if !fetched && l.OnFetch != nil {
			l.OnFetch()
		}
		fetched = true
		g.Go(func() error {
			shards[i], faults[i] = fetch(fetchCtx, listed)
			if errors.Is(faults[i], ErrUnusable) {
				return nil // the caller still needs the other shards
			}
			return faults[i]
		})
	}
	err := g.Wait()
	l.read = map[string]*shard{}
	for i, part := range shards {
		switch sum := cur.Shards[i].SHA256; {
		case part == nil:
			l.missing++
		case have[sum] == nil:
			l.read[sum] = part
		}
	}
	if err != nil {
		return nil, err
	}
	return shards, errors.Join(faults...)
}

// An interval is a range of ids whose items are missing.
type interval struct{ from, to string } // to "": there is no end

// present returns the usable shards, and the ranges of the missing shards.
func present(shards []*shard, cur Current) (usable []*shard, missing []interval) {
	for i, part := range shards {
		if part != nil {
			usable = append(usable, part)
			continue
		}
		var gap interval
		if i > 0 {
			gap.from = orderOf(cur.Shards[i].First)
		}
		if i+1 < len(cur.Shards) {
			gap.to = orderOf(cur.Shards[i+1].First)
		}
		missing = append(missing, gap)
	}
	return usable, missing
}

// misses reports whether the server was in a shard that could not be read.
func (s *Snapshot) misses(server string) bool {
	key := orderOf(server)
	for _, gap := range s.missing {
		if gap.from <= key && (gap.to == "" || key < gap.to) {
			return true
		}
	}
	return false
}

// ordered checks that shards are in order and do not overlap: lookups depend on that.
func ordered(shards []*shard) error {
	last := ""
	for i, part := range shards {
		if first := part.first(); i > 0 && first <= last {
			return fmt.Errorf("load catalog: %w: shard %d begins with %q, the shard before it ends with %q",
				ErrUnusable, i, strings.TrimSuffix(first, ":"), last)
		}
		for _, server := range part.servers {
			last = max(last, orderOf(server.Name))
		}
	}
	return nil
}
