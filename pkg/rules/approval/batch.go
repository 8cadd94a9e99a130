package approval

import "context"

// A Batcher is a [Store] that stores many records at once at a lower cost than one by one. Every
// implementation passes approvaltest.Run.
type Batcher interface {
	// PutAll does [Store.Put] for each write and returns the result of each. No two writes may be
	// of one item. A write that is refused, or that comes after another writer's, does not stop
	// the others. If PutAll returns an error nothing is stored. The error is
	// [errors.ErrUnsupported] if a Store that wraps another one finds that the other is no
	// Batcher.
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
