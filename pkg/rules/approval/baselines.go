package approval

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// putAtOnce is how many baselines are written at the same time.
const putAtOnce = 16

// Baselines keeps [Baseline]s. Only a sync needs it. It is safe for concurrent use.
type Baselines struct{ docs document.Store }

// NewBaselines returns the baselines in docs.
func NewBaselines(docs document.Store) *Baselines { return &Baselines{docs} }

// Baseline returns the baseline of the identity and kind, or [ErrNotFound].
func (s *Baselines) Baseline(
	ctx context.Context, identity string, kind Kind,
) (b Baseline, err error) {
	defer document.Wrap(&err, ErrConflict, "baseline of %q", identity)
	d, err := document.Find(ctx, s.docs, baselineDocKey(BaselineKey(identity, kind)), ErrNotFound)
	if err == nil {
		err = json.Unmarshal(d.Data, &b)
	}
	return b, err
}

// PutBaselines stores baselines and replaces older ones. If a baseline fails [Baseline.Check], it
// stores none. After any other error, some baselines may be
// stored.
func (s *Baselines) PutBaselines(ctx context.Context, all []Baseline) (err error) {
	defer document.Wrap(&err, ErrConflict, "put baselines")
	faults := make([]error, len(all))
	for i, b := range all {
		faults[i] = b.Check()
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putAtOnce)
	for _, b := range all {
		g.Go(func() error { return s.put(ctx, b) })
	}
	return g.Wait()
}

// put first writes without a read, because there is usually no document: a server has its first
// list once.
func (s *Baselines) put(ctx context.Context, b Baseline) (err error) {
	defer document.Wrap(&err, ErrConflict, "of %q", b.Server)
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return document.Replace(ctx, s.docs, document.Doc{Key: baselineDocKey(b.Key()), Data: data})
}

// OldBaselines returns the baselines that earlier versions of the program stored under the names
// of these servers, in the present form. It leaves out a baseline without a URL.
func (s *Baselines) OldBaselines(
	ctx context.Context, servers []string,
) (found []Baseline, err error) {
	defer document.Wrap(&err, ErrConflict, "old baselines")
	keys := make([]document.Key, len(servers))
	for i, server := range servers {
		keys[i] = document.Key{Part: "SRV#" + server, ID: "BASELINE"}
	}
	docs, err := s.docs.Docs(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		var b Baseline
		if d.Rev == 0 {
			continue
		}
		if err := json.Unmarshal(d.Data, &b); err != nil {
			return nil, err
		}
		if now, isOld := b.Present(); isOld {
			found = append(found, now)
		}
	}
	return found, nil
}

// baselineDocKey splits a [BaselineKey] at its #.
func baselineDocKey(key string) document.Key {
	hash, kind, _ := strings.Cut(key, "#")
	return document.Key{Part: "BASE#" + hash, ID: kind}
}
