package bolt

import (
	"cmp"
	"context"
	"encoding/json"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ approval.Baselines = (*Store)(nil)

// Baseline implements [approval.Baselines].
func (s *Store) Baseline(ctx context.Context, identity string, kind approval.Kind) (b approval.Baseline, err error) {
	defer store.Wrap(&err, "baseline of %q", identity)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		data := tx.Bucket(firsts).Get([]byte(approval.BaselineKey(identity, kind)))
		if data == nil {
			return approval.ErrNotFound
		}
		return json.Unmarshal(data, &b)
	})
	return b, err
}

// PutBaselines implements [approval.Baselines], in one transaction.
func (s *Store) PutBaselines(ctx context.Context, all []approval.Baseline) (err error) {
	defer store.Wrap(&err, "put baselines")
	if err := cmp.Or(ctx.Err(), approval.CheckBaselines(all)); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		for _, b := range all {
			if err := putJSON(tx.Bucket(firsts), []byte(b.Key()), b); err != nil {
				return err
			}
		}
		return nil
	})
}

// OldBaselines implements [approval.Baselines]. It returns those of all servers and identities.
func (s *Store) OldBaselines(ctx context.Context, _ []string) (all []approval.Baseline, err error) {
	defer store.Wrap(&err, "old baselines")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		add := func(_, data []byte) error {
			var b approval.Baseline
			err := json.Unmarshal(data, &b)
			all = b.AppendOld(all)
			return err
		}
		if err := tx.Bucket(baselines).ForEach(add); err != nil {
			return err
		}
		return tx.Bucket(firsts).ForEach(add)
	})
	return all, err
}
