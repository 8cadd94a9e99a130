// Package document keeps small documents, each under a key and with a revision: stops, tokens,
// logins, sessions, requests, grants, notices and baselines. One interface, [Store], serves all of
// them, so that each driver implements conditional writes, expiry and batches once. The rules of
// each kind of document are in the package of its domain.
package document

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// MaxPut is the most documents that one call of PutDocs writes.
const MaxPut = 25

// ErrNotFound is the error of TouchDoc for an absent document.
var ErrNotFound = errors.New("document not found")

// ErrConflict matches every [ConflictError].
var ErrConflict = errors.New("document changed since read")

// A Key names a document. IAM policies match the first letters of Part.
type Key struct{ Part, ID string }

// A Doc is a document as it is stored, or as a caller wants it stored.
type Doc struct {
	Key
	Data []byte    // nil in a Doc to be written: delete the document
	Rev  int64     // the revision that the caller read; 0: not stored
	Keep time.Time // the document is kept at least until then; zero: forever
	Mark string    // a small attribute that TouchDoc changes without a new revision
}

// A Reader reads documents as described at [Store].
type Reader interface {
	Docs(ctx context.Context, keys ...Key) ([]Doc, error)
}

// A Store keeps documents. Every driver passes documenttest.Run. A Store is safe for concurrent
// use, even by several processes. A document whose Keep has passed counts as absent everywhere.
type Store interface {
	// Docs returns one Doc for each key, in the order of the keys. It sees every write that
	// returned before it began. The Doc of an absent document has only its Key.
	Docs(ctx context.Context, keys ...Key) ([]Doc, error)

	// PutDocs writes all docs or none. It writes a document at the revision Rev+1 if the stored
	// revision is still Rev. Rev 0 requires that the document is absent. A negative Rev requires
	// the same, and the document is stored at 1-Rev: a part that deletes documents and uses their
	// keys again starts each at a random revision, so that no old read matches a new document. An
	// empty Mark keeps the stored mark. The mark of a notice never changes, and a driver may
	// require that. If another writer came first, the error is a [*ConflictError] that names one
	// key of such a document. PutDocs refuses more than [MaxPut] documents and a key that occurs
	// twice.
	PutDocs(ctx context.Context, docs ...Doc) error

	// ListDocs returns the documents of a part, sorted by ID. all is false if the part has more
	// documents than a driver reads at once, or documents that the driver cannot read.
	ListDocs(ctx context.Context, part string) (docs []Doc, all bool, err error)

	// TouchDoc sets the mark of a document at any revision, or returns [ErrNotFound].
	TouchDoc(ctx context.Context, key Key, mark string) error
}

// CheckPut returns the error for docs that PutDocs refuses without reading the store.
func CheckPut(docs []Doc) error {
	if len(docs) > MaxPut {
		return fmt.Errorf("%d documents in one call of PutDocs: at most %d", len(docs), MaxPut)
	}
	keys := make(map[Key]bool, len(docs))
	for _, d := range docs {
		switch {
		case d.Part == "" || d.ID == "":
			return fmt.Errorf("key %q %q of a document: both need a text", d.Part, d.ID)
		case keys[d.Key]:
			return fmt.Errorf("document %q %q is to be put twice", d.Part, d.ID)
		}
		keys[d.Key] = true
	}
	return nil
}

// NextRev returns the revision at which PutDocs stores a document whose revision was rev.
func NextRev(rev int64) int64 {
	if rev < 0 {
		rev = -rev
	}
	return rev + 1
}

// A ConflictError says that another writer changed a document after the caller read it. Nothing was
// written. The caller reads the document again.
type ConflictError struct{ Key Key }

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("document %q %q changed since read", e.Key.Part, e.Key.ID)
}

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// The limits of [Retry].
const (
	maxTries  = 32
	firstWait = 2 * time.Millisecond
	maxWait   = 100 * time.Millisecond
)

// Retry runs the given function, and runs it again while its error is the argument conflict. It
// returns the last result. Between calls it waits a random time, which grows to 100 ms. It gives up
// after 32 calls. The function reads the stored document and writes it changed, so that two writers
// at the same time both succeed.
func Retry[T any](ctx context.Context, conflict error, once func() (T, error)) (v T, err error) {
	for n := 1; ; n++ {
		if v, err = once(); !errors.Is(err, conflict) || n == maxTries {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(rand.N(min(firstWait<<min(n-1, 10), maxWait))):
		}
	}
}
