package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// copyName follows the file's name in the name of an unfinished copy. Open removes a copy that a
// killed program left.
const copyName = ".copy-"

// ErrNoCopy says that a file is no copy that can be restored.
var ErrNoCopy = errors.New("it is no copy of approvals that can be restored")

// Contents describe a file of approvals.
type Contents struct {
	Records  int       // of tools, prompts and resources
	Approved int       // records in the state approved
	Tokens   int       // live tokens of agents
	Newest   time.Time // when the newest record was written; zero: no record
	Bytes    int64
}

// Copy returns a consistent copy of the file, after it verified the whole copy. The copy is a file
// in the same folder until the caller closes it. A reader of the copy blocks no other work.
func (s *Store) Copy(ctx context.Context) (_ io.ReadCloser, size int64, records int, err error) {
	defer store.Wrap(&err, "copy approvals")
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+copyName+"*") // mode 0600
	if err != nil {
		return nil, 0, 0, err
	}
	out := &copied{f}
	var c Contents
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		w := &copyWriter{w: f}
		_, err := tx.WriteTo(w)
		return cmp.Or(w.err, err)
	})
	if err == nil {
		c, err = Inspect(f.Name())
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = out.Close() // the first error counts
		return nil, 0, 0, err
	}
	return out, c.Bytes, c.Records, nil
}

// A copyWriter stores the error of a failed write, because bbolt returns an error that has only the
// text of that error.
type copyWriter struct {
	w   io.Writer
	err error
}

func (c *copyWriter) Write(b []byte) (n int, err error) {
	n, err = c.w.Write(b)
	c.err = cmp.Or(c.err, err)
	return n, err
}

// A copied is a file that Close also removes.
type copied struct{ *os.File }

func (c *copied) Close() error { return errors.Join(c.File.Close(), os.Remove(c.Name())) }

// sweepCopies removes the copies that a killed program left beside the file.
func sweepCopies(path string) {
	folder, base := filepath.Split(path)
	left, _ := filepath.Glob(path + copyName + "*") // the pattern is valid
	more, _ := filepath.Glob(folder + store.TempName + base + "*")
	for _, name := range append(left, more...) {
		_ = os.Remove(name) // if this fails, the file only takes space
	}
}

// Inspect reads a whole copy and returns its contents, or [ErrNoCopy]. It does not write into the
// copy.
func Inspect(path string) (c Contents, err error) {
	defer store.Wrap(&err, "read %q", path)
	s, c, err := openCopy(path)
	if err != nil {
		return c, err
	}
	return c, s.Close()
}

// openCopy opens a copy for reading. The copy may have any age, and anybody may have made it.
func openCopy(path string) (_ *Store, c Contents, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, c, err
	} else if !info.Mode().IsRegular() {
		return nil, c, fmt.Errorf("%w: it is no file", ErrNoCopy)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryRLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return nil, c, ErrHeld
		}
		return nil, c, err
	}
	if err := verify(path); err != nil {
		return nil, c, fmt.Errorf("%w: it is damaged, or no copy at all: %w", ErrNoCopy, err)
	}
	s, err := openFit(path)
	if err != nil {
		return nil, c, err
	}
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		c, err = fit(tx, s.o.Now())
		return err
	})
	if err != nil {
		_ = s.Close() // the first error counts
		return nil, c, err
	}
	if s.scratch != "" {
		c.Bytes = info.Size()
	}
	return s, c, nil
}

// openFit opens a copy whose structure was verified. If an earlier version wrote the copy, openFit
// opens a converted copy in a temporary folder.
func openFit(path string) (*Store, error) {
	s, err := openReadOnly(path, (*store.Options)(nil).OrDefault())
	if err != nil {
		return nil, err
	}
	if err := s.view(context.Background(), isApprovals); err != nil || s.isPrepared() {
		if err != nil {
			_ = s.close() // the first error counts
		}
		return s, err
	}
	if err := s.close(); err != nil {
		return nil, err
	}
	s, err = openScratch(path, s.o, true)
	if bad, ok := errors.AsType[*unconvertedError](err); ok {
		return nil, fmt.Errorf("%w: %w", ErrNoCopy, bad)
	}
	return s, err
}

// isApprovals returns an error if a file is no copy of approvals.
func isApprovals(tx *bbolt.Tx) error {
	if tx.Bucket(records) == nil || tx.Bucket(documents) == nil && tx.Bucket([]byte("tokens")) == nil {
		return fmt.Errorf("%w: it is a database of another kind, without approvals or documents", ErrNoCopy)
	}
	if tx.Bucket(feed) != nil {
		return fmt.Errorf("%w: an earlier version wrote it, in another form: start portcullis "+
			"once in a new folder with only this file, and make a copy there", ErrNoCopy)
	}
	return nil
}

// fit returns the contents of a copy, or the reason why it cannot be restored.
func fit(tx *bbolt.Tx, now time.Time) (c Contents, err error) {
	newer := func(what string, id any) error {
		return fmt.Errorf("%w: a newer version of portcullis wrote the %s %q: use that version", ErrNoCopy, what, id)
	}
	c.Bytes = tx.Size()
	err = eachRecord(tx, func(r approval.Record) error {
		if r.Format > approval.Format {
			return newer("record", r.ID().String())
		}
		c.Records++
		if r.State == approval.Approved {
			c.Approved++
		}
		if r.UpdatedAt.After(c.Newest) {
			c.Newest = r.UpdatedAt
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	err = eachToken(tx, func(t token.Token, _ document.Doc) error {
		if t.Format > token.Format {
			return newer("token", t.ID)
		}
		if t.Live(now) {
			c.Tokens++
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	return c, eachDoc(tx, stopsKey.Part, func(d document.Doc) error {
		if _, err := stop.Decode(d.Data); err != nil {
			return fmt.Errorf("%w: its list of stops cannot be read: %w", ErrNoCopy, err)
		}
		return nil
	})
}

// eachRecord calls the function do with every record of a file, which may lack some buckets.
func eachRecord(tx *bbolt.Tx, do func(approval.Record) error) error {
	for _, name := range [][]byte{records, itemRecords} {
		b := tx.Bucket(name)
		if b == nil {
			continue
		}
		err := b.ForEach(func(id, data []byte) error {
			r, err := decode(data)
			if err != nil || string(id) != r.ID().String() {
				return fmt.Errorf("%w: the record %q cannot be read", ErrNoCopy, id)
			}
			return do(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachToken calls the function do with every token of a file, and its document.
func eachToken(tx *bbolt.Tx, do func(token.Token, document.Doc) error) error {
	return eachDoc(tx, tokenPart, func(d document.Doc) error {
		t, err := token.Decode(d.Data, d.Mark)
		if err != nil || t.ID != d.ID {
			return fmt.Errorf("%w: the token %q cannot be read", ErrNoCopy, d.ID)
		}
		return do(t, d)
	})
}

// eachDoc calls the function do with every document of a part.
func eachDoc(tx *bbolt.Tx, part string, do func(document.Doc) error) error {
	prefix := docKey(document.Key{Part: part})
	c := tx.Bucket(documents).Cursor()
	for k, data := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, data = c.Next() {
		d, err := unwrapDoc(document.Key{Part: part, ID: string(k[len(prefix):])}, data)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoCopy, err)
		}
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}
