package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// ErrDamaged says that the file exists but is unusable. Nothing was written into the file.
var ErrDamaged = errors.New("the file is damaged; stop the gateway and run portcullis restore --dir DIR, which keeps a copy of the file and restores the decisions from the catalog")

// begin creates a complete file without records if there is no file. If the disk is full, it
// creates no file, because later starts would report an incomplete file as damaged.
func begin(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // the code that reads the file reports its fault
	}
	place := func(root *os.Root, from, to string) error {
		_ = root.Link(from, to) // fails if there is a file now; without links, bbolt makes it
		return nil
	}
	return store.WriteFile(path, 0o600, place, func(temp *os.File) error {
		db, err := bbolt.Open(temp.Name(), 0o600, nil)
		if err != nil {
			return err
		}
		return db.Close()
	})
}

// intact returns an error if the file at path is damaged; a missing file is fine. It locks the file
// while it reads, so that no other process writes. If another process has the file open for longer
// than wait, intact returns an error.
func intact(path string, wait time.Duration) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return bolterrors.ErrTimeout
		}
		return err
	}
	if err := verify(path); err != nil {
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return nil
}

// A guard runs transactions so that damage causes an error instead of a panic, even if the damage
// happens after the file was opened. After damage, the guard does not use the database again,
// because bbolt may have left it locked. For the same reason one transaction runs at a time,
// so that no goroutine waits for a lock of bbolt.
type guard struct {
	store.FailureCount
	path   string
	turn   sync.Mutex // held by the transaction that runs; guards db, broken and read
	db     *bbolt.DB
	broken error // the damage that a transaction found
	read   int   // bytes of records read since the last release of memory

	mu    sync.Mutex
	queue []*write // writes of the next transaction
}

// A write is one caller's part of a transaction that several callers share.
type write struct {
	do   func(*bbolt.Tx) error
	done chan error // has room for the one result of do
}

// run calls transact, which must not start goroutines that touch the database.
func (g *guard) run(transact func() error) (err error) {
	defer func() { g.Note(err) }()
	g.turn.Lock()
	defer g.turn.Unlock()
	if g.broken != nil {
		return g.broken
	}
	// A read of a page beyond the end of the file is a memory fault, which ends the program by
	// default.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			g.broken = fmt.Errorf("%q: %w (%v)", g.path, ErrDamaged, p)
			err = g.broken
		}
	}()
	return transact()
}

// view runs a read transaction unless ctx has ended.
func (g *guard) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return g.run(func() error {
		return g.db.View(func(tx *bbolt.Tx) error {
			defer g.releasePages(tx)
			return read(tx)
		})
	})
}

// usable returns an error if ctx has ended, or if an earlier transaction found damage. It runs no
// transaction itself.
func (g *guard) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return g.run(func() error { return nil })
}

// update runs a write. Writes that come during a transaction share the next one, since each
// transaction waits for the disk, and a first sync writes a record for every tool. update may call
// the function do more than once. It does not use bbolt's Batch, which writes on a goroutine where
// a panic cannot be recovered.
func (g *guard) update(do func(*bbolt.Tx) error) error {
	w := &write{do, make(chan error, 1)}
	g.mu.Lock()
	g.queue = append(g.queue, w)
	first := len(g.queue) == 1
	g.mu.Unlock()
	if first { // the other callers wait until this call has written the queue
		g.write()
	}
	return <-w.done
}

// write runs the queue in one transaction. If a write fails, it repeats the transaction without
// that write.
func (g *guard) write() {
	var all []*write
	for taken := false; !taken || len(all) > 0; {
		at := -1
		err := g.run(func() error {
			if !taken {
				all, taken = g.take(), true
			}
			return g.db.Update(func(tx *bbolt.Tx) error {
				for i, w := range all {
					at = i
					if err := w.do(tx); err != nil {
						return err
					}
				}
				at = -1
				return nil
			})
		})
		if !taken { // the guard no longer uses the database
			all, taken = g.take(), true
		}
		if err == nil || at < 0 {
			for _, w := range all {
				w.done <- err
			}
			return
		}
		all[at].done <- err
		all = append(all[:at:at], all[at+1:]...)
	}
}

// take empties the queue.
func (g *guard) take() []*write {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.queue
	g.queue = nil
	return all
}

// close closes the file. After damage it does nothing: the end of the process closes the file.
func (g *guard) close() error {
	err := g.run(func() error { return g.db.Close() })
	if errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}
