package bolt

import (
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// feed is a bucket of earlier programs: every record by its UpdatedAt. If it exists, such a program
// wrote last.
var feed = []byte("feed")

// migrate adds the decisions to a file of an earlier program. The records of such a file have only
// the last decision, with its actor and time.
func migrate(tx *bbolt.Tx) error {
	if tx.Bucket(feed) == nil {
		return nil
	}
	var decided []approval.Record
	err := tx.Bucket(records).ForEach(func(id, data []byte) error {
		r, err := decode(data)
		if err != nil {
			return fmt.Errorf("%q: %w", id, err)
		}
		if r.DecidedAt.IsZero() && r.By != "" && r.By != approval.Sync {
			r.DecidedAt = r.At
		}
		if !r.DecidedAt.IsZero() {
			decided = append(decided, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Rebuild the bucket: the earlier program left records at old places among the decisions.
	if err := tx.DeleteBucket(decisions); err != nil {
		return err
	}
	if _, err := tx.CreateBucket(decisions); err != nil {
		return err
	}
	for _, r := range decided {
		if err := put(tx, r); err != nil {
			return err
		}
		if err := move(tx, approval.Record{}, r); err != nil {
			return err
		}
	}
	return tx.DeleteBucket(feed)
}
