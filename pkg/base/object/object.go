// Package object is the port to a store of small blobs: the server config, the deny policy and the
// tool catalog.
//
// Two functions write the same keys, so every write can name the version that the writer read.
// Without this check, a lost update could silently restore an old policy. The ETag is the version.
// A conditional read with the ETag transfers no data if the object has not changed.
package object

import (
	"context"
	"errors"
)

// Errors that a caller may have to distinguish.
var (
	ErrNotFound    = errors.New("object not found")          // no object has the key
	ErrNotModified = errors.New("object not modified")       // it has the ETag passed to Get
	ErrConflict    = errors.New("object changed since read") // caller re-reads and retries
	ErrKey         = errors.New("object key is not allowed") // see CheckKey

	// ErrDamaged says that the bytes stored under the key cannot be the bytes that were put there.
	// Later reads return the same error; only a write repairs the object.
	ErrDamaged = errors.New("stored object is damaged")
)

// IfAbsent is an ifMatch of [Store.Put]. With it the write succeeds only if the key has no object
// yet.
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

	// Put stores all of data or nothing, and returns the new ETag. If ifMatch is not empty, the
	// stored object must have that ETag ([IfAbsent]: must not exist). Otherwise Put stores nothing
	// and returns [ErrConflict].
	Put(ctx context.Context, key string, data []byte, ifMatch string) (etag string, err error)

	// Delete removes the object at any version. An absent object is no error.
	Delete(ctx context.Context, key string) error

	// List returns the ETags of all objects in a folder and below it, by key. The folder is the
	// prefix of a key, without the slash after it. List sees every Put that returned before it
	// began.
	List(ctx context.Context, folder string) (etags map[string]string, err error)
}

// A Mapper is a [Store] that can return an object as mapped memory, without a copy.
type Mapper interface {
	Store

	// Map returns the data of the object, or [ErrNotFound]. The caller must not change it. It stays
	// valid until the process ends, even if the object changes or is deleted.
	Map(ctx context.Context, key string) (data []byte, err error)
}
