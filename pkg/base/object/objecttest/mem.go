// Package objecttest helps to test objects. [Run] tests the promises that every object.Store keeps.
// [Mem] is a working store in memory with hooks that can fail, before or after it keeps a write.
package objecttest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// A Mem is an [object.Store] in memory. The zero value is ready to use. Set hooks before the first
// use. They run without the lock, so they may call the store, and several may run at once.
//
// Its ETags count writes: a caller that uses an ETag as a hash of the data fails here, as it would
// on S3.
type Mem struct {
	OnGet    func(ctx context.Context, key string) error // before a read; an error fails it
	OnDelete func(ctx context.Context, key string) error // before a removal; an error fails it

	// OnPut runs before a write. An error fails it; with an error, true keeps the write.
	OnPut func(ctx context.Context, key string, data []byte) (bool, error)

	mu      sync.Mutex
	objects map[string]object.Object
	writes  int
}

var _ object.Store = (*Mem)(nil)

// Copy returns a store with the present objects of m, without its hooks.
func (m *Mem) Copy() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{objects: maps.Clone(m.objects), writes: m.writes}
}

// Get implements [object.Store].
func (m *Mem) Get(ctx context.Context, key, ifNoneMatch string) (object.Object, error) {
	if m.OnGet != nil {
		if err := m.OnGet(ctx, key); err != nil {
			return object.Object{}, err
		}
	}
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return object.Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	switch {
	case !ok:
		return object.Object{}, fmt.Errorf("get %q: %w", key, object.ErrNotFound)
	case o.ETag == ifNoneMatch:
		return object.Object{}, fmt.Errorf("get %q: %w", key, object.ErrNotModified)
	}
	o.Data = bytes.Clone(o.Data)
	return o, nil
}

// List implements [object.Store]. Its hook is OnGet, with the folder as the key.
func (m *Mem) List(ctx context.Context, folder string) (map[string]string, error) {
	if m.OnGet != nil {
		if err := m.OnGet(ctx, folder); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(ctx.Err(), object.CheckKey(folder)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	etags := map[string]string{}
	for key, o := range m.objects {
		if strings.HasPrefix(key, folder+"/") {
			etags[key] = o.ETag
		}
	}
	return etags, nil
}

// Delete implements [object.Store].
func (m *Mem) Delete(ctx context.Context, key string) error {
	if m.OnDelete != nil {
		if err := m.OnDelete(ctx, key); err != nil {
			return err
		}
	}
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// Put implements [object.Store].
func (m *Mem) Put(ctx context.Context, key string, data []byte, ifMatch string) (string, error) {
	if m.OnPut != nil {
		if kept, err := m.OnPut(ctx, key, data); err != nil {
			if kept {
				_, _ = m.put(ctx, key, data, ifMatch) // the hook's error counts
			}
			return "", err
		}
	}
	return m.put(ctx, key, data, ifMatch)
}

func (m *Mem) put(ctx context.Context, key string, data []byte, ifMatch string) (string, error) {
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	held, ok := m.objects[key]
	switch {
	case ifMatch == "":
	case ifMatch == object.IfAbsent && !ok:
	case ok && ifMatch == held.ETag:
	default:
		return "", fmt.Errorf("put %q: %w", key, object.ErrConflict)
	}
	if m.objects == nil {
		m.objects = map[string]object.Object{}
	}
	m.writes++
	etag := fmt.Sprintf(`"%d"`, m.writes)
	m.objects[key] = object.Object{Data: append([]byte{}, data...), ETag: etag}
	return etag, nil
}
