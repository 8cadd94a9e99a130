package dynamo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ approval.Baselines = (*Store)(nil)

// maxBaselines is how many baselines are read, or written, at once.
const maxBaselines = 16

// Baseline implements [approval.Baselines].
func (s *Store) Baseline(ctx context.Context, identity string, kind approval.Kind) (b approval.Baseline, err error) {
	defer store.Wrap(&err, "baseline of %q", identity)
	return read(ctx, s, baselineKey(approval.BaselineKey(identity, kind)), decodeBaseline)
}

func decodeBaseline(it item) (b approval.Baseline, err error) {
	if err = json.Unmarshal([]byte(textOf(it["baseline"])), &b); err != nil {
		err = broken(it, err)
	}
	return b, err
}

// PutBaselines implements [approval.Baselines], in a call for each.
func (s *Store) PutBaselines(ctx context.Context, all []approval.Baseline) (err error) {
	defer store.Wrap(&err, "put baselines")
	if err := cmp.Or(ctx.Err(), approval.CheckBaselines(all)); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxBaselines)
	for _, b := range all {
		g.Go(func() error { return s.putBaseline(ctx, b) })
	}
	return g.Wait()
}

func (s *Store) putBaseline(ctx context.Context, b approval.Baseline) (err error) {
	defer store.Wrap(&err, "of %q", b.Server)
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	it := baselineKey(b.Key())
	it["baseline"] = text(string(data))
	_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: it}, s.options)
	return s.explain(err)
}

// OldBaselines implements [approval.Baselines].
func (s *Store) OldBaselines(ctx context.Context, servers []string) ([]approval.Baseline, error) {
	var mu sync.Mutex
	var found []approval.Baseline
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxBaselines)
	for _, server := range servers {
		g.Go(func() error {
			b, err := read(ctx, s, item{"PK": text(recordPK + server), "SK": text("BASELINE")}, decodeBaseline)
			if err != nil && !errors.Is(err, approval.ErrNotFound) {
				return fmt.Errorf("old baseline of %q: %w", server, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found = b.AppendOld(found)
			return nil
		})
	}
	return found, g.Wait()
}

// baselineKey parts an [approval.BaselineKey] at its #.
func baselineKey(key string) item {
	hash, kind, _ := strings.Cut(key, "#")
	return item{"PK": text("BASE#" + hash), "SK": text(kind)}
}
