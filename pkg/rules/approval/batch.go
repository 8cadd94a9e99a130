package approval

import "context"

// A Batcher is a [Store] that writes many records in one operation, which costs less than one write
// for each. Every implementation passes approvaltest.Run.
type Batcher interface {
	// PutAll does [Store.Put] for each write and returns the result of each. No two writes may
	// concern the same item. A write that is refused or in conflict does not stop the others. If
	// PutAll returns an error, nothing is stored. The error is [errors.ErrUnsupported] if the Store
	// wraps another Store that is no Batcher.
	PutAll(ctx context.Context, all []Write) ([]Written, error)
}

// A Write is a record to store, with its audit line; nil: no line.
type Write struct {
	Record Record
	Entry  *Entry
}

// A Written is the result of a [Write].
type Written struct {
	Record Record // as stored
	Err    error  // why it was not stored
}
