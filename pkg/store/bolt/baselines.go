package bolt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
)

var _ approval.Baselines = (*Store)(nil)

// Baseline implements [approval.Baselines].
func (s *Store) Baseline(ctx context.Context, identity string, kind approval.Kind) (b approval.Baseline, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		data := tx.Bucket(firsts).Get([]byte(approval.BaselineKey(identity, kind)))
		if data == nil {
			return approval.ErrNotFound
		}
		return json.Unmarshal(data, &b)
	})
	if err != nil {
		return approval.Baseline{}, fmt.Errorf("baseline of %q: %w", identity, err)
	}
	return b, nil
}

// PutBaseline implements [approval.Baselines].
func (s *Store) PutBaseline(ctx context.Context, b approval.Baseline) error {
	data, err := json.Marshal(b)
	if err := cmp.Or(ctx.Err(), b.Check(), err); err != nil {
		return fmt.Errorf("put baseline of %q: %w", b.Server, err)
	}
	err = s.update(func(tx *bbolt.Tx) error { return tx.Bucket(firsts).Put([]byte(b.Key()), data) })
	if err != nil {
		return fmt.Errorf("put baseline of %q: %w", b.Server, err)
	}
	return nil
}

// OldBaselines implements [approval.Baselines]. It returns those of all servers.
func (s *Store) OldBaselines(ctx context.Context, _ []string) (all []approval.Baseline, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(baselines).ForEach(func(_, data []byte) error {
			var b approval.Baseline
			if err := json.Unmarshal(data, &b); err != nil {
				return err
			}
			if b.URL != "" {
				b.Identity, b.Kind = approval.Identity(b.URL), approval.Tools
				all = append(all, b)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("old baselines: %w", err)
	}
	return all, nil
}
