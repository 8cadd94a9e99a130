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
)

var _ approval.Baselines = (*Store)(nil)

// maxReaders is how many old baselines are read at once.
const maxReaders = 16

// Baseline implements [approval.Baselines].
func (s *Store) Baseline(ctx context.Context, identity string, kind approval.Kind) (approval.Baseline, error) {
	b, err := s.readBaseline(ctx, baselineKey(approval.BaselineKey(identity, kind)))
	if err != nil {
		return approval.Baseline{}, fmt.Errorf("baseline of %q: %w", identity, err)
	}
	return b, nil
}

func (s *Store) readBaseline(ctx context.Context, key item) (approval.Baseline, error) {
	return read(ctx, s, key, func(it item) (b approval.Baseline, err error) {
		if err = json.Unmarshal([]byte(textOf(it["baseline"])), &b); err != nil {
			err = broken(it, err)
		}
		return b, err
	})
}

// PutBaseline implements [approval.Baselines].
func (s *Store) PutBaseline(ctx context.Context, b approval.Baseline) error {
	data, err := json.Marshal(b)
	if err := cmp.Or(ctx.Err(), b.Check(), err); err != nil {
		return fmt.Errorf("put baseline of %q: %w", b.Server, err)
	}
	it := baselineKey(b.Key())
	it["baseline"] = text(string(data))
	if _, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: it}, s.options); err != nil {
		return fmt.Errorf("put baseline of %q: %w", b.Server, s.explain(err))
	}
	return nil
}

// OldBaselines implements [approval.Baselines].
func (s *Store) OldBaselines(ctx context.Context, servers []string) ([]approval.Baseline, error) {
	var mu sync.Mutex
	var found []approval.Baseline
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxReaders)
	for _, server := range servers {
		g.Go(func() error {
			b, err := s.readBaseline(ctx, item{"PK": text(recordPK + server), "SK": text("BASELINE")})
			if errors.Is(err, approval.ErrNotFound) || err == nil && b.URL == "" {
				return nil
			}
			if err != nil {
				return fmt.Errorf("old baseline of %q: %w", server, err)
			}
			b.Identity, b.Kind = approval.Identity(b.URL), approval.Tools
			mu.Lock()
			defer mu.Unlock()
			found = append(found, b)
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
