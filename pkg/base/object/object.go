// Package object is the port to a store of small blobs: the server config, the deny policy and the
// tool catalog.
//
// Two functions write the same keys, so every write can name the version it read: a lost update
// would silently restore an old policy. The ETag is that version, and a conditional read with it
// costs no transfer.
package object

import (
	"context"
	"errors"
)

// What a caller may have to tell apart.
var (
	ErrNotFound    = errors.New("object not found")          // no object has the key
	ErrNotModified = errors.New("object not modified")       // it still has the ETag that Get named
	ErrConflict    = errors.New("object changed since read") // caller re-reads and retries
	ErrKey         = errors.New("object key is not allowed") // see CheckKey

	// ErrDamaged says that what is stored under the key cannot be what was put there. A look that comes
	// later finds the same; only a write mends it.
	ErrDamaged = errors.New("stored object is damaged")
)

// IfAbsent is the ifMatch of [Store.Put] with which the write succeeds only if the key has no
// object yet.
const IfAbsent = "*absent*"

// An Object is a blob and its version.
type Object struct {
	Data []byte
	ETag string // opaque, never empty; equal data may have equal ETags
}

// A Store keeps objects by key ("config/mcp_config.json"). Every implementation passes
// objecttest.Run. It is safe for concurrent use.
type Store interface {
	// Get returns the object, or [ErrNotFound]. If ifNoneMatch is not empty and is the object's
	// ETag it returns [ErrNotModified]. With [ErrDamaged] the object has its ETag and no data.
	Get(ctx context.Context, key, ifNoneMatch string) (Object, error)

	// Put stores data whole or not at all and returns the new ETag. If ifMatch is not empty the
	// stored object must have that ETag ([IfAbsent]: must not exist); otherwise nothing is stored
	// and it returns [ErrConflict].
	Put(ctx context.Context, key string, data []byte, ifMatch string) (etag string, err error)

	// Delete removes the object, whatever its version. A key without one is no error.
	Delete(ctx context.Context, key string) error

	// List returns the ETags of all objects in a folder and below it, by key. The folder is the
	// beginning of a key, without the slash that follows it. It has what every Put that returned
	// before it began has stored.
	List(ctx context.Context, folder string) (etags map[string]string, err error)
}

// A Mapper is a [Store] that can hand out an object as a part of the address space, without a copy.
type Mapper interface {
	Store

	// Map returns the data of the object, or [ErrNotFound]. It must not be changed. It stays as it is,
	// whatever becomes of the object, until the process ends.
	Map(ctx context.Context, key string) (data []byte, err error)
}
