package approval

import "context"

// A Batcher is a [Store] that stores many records at once for less than one by one. Every one passes
// approvaltest.Run.
type Batcher interface {
	// PutAll is [Store.Put] of each of these writes, of which no two are of one item, and returns how
	// each ended. One that is refused, or that another writer was before, does not keep the others from
	// being stored. With an error nothing is stored; it is [errors.ErrUnsupported] if what
	// stands before another Store finds that to be no Batcher.
	PutAll(ctx context.Context, all []Write) ([]Written, error)
}

// A Write is a record to be stored, with its audit line; nil: none is due.
type Write struct {
	Record Record
	Entry  *Entry
}

// A Written is how a [Write] ended.
type Written struct {
	Record Record // as it is stored
	Err    error  // why it is not
}
