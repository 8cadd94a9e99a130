package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// beforeName follows the file's name in the name of the copy that is made before a conversion.
const beforeName = ".before-documents"

// The build before reads stops, tokens and baselines in buckets of its own. In a file of this
// version it would find none of them. It would see nothing stopped, and would approve the next list
// of every server as the first one. So each file has two marks for that build: a stop of everything
// in the bucket of stops, and a baseline that it cannot read. Its sync fails there, and the error
// has the text.
var (
	markStop     = stop.Stop{Target: stop.Target{All: true}, Reason: markReason, By: "portcullis"}
	markBaseline = []byte(`{"at":"` + markReason + `"}`)
	markKey      = []byte("portcullis:converted") // no server has a colon in its name
)

const markReason = "A newer version of portcullis wrote this file. " +
	"Start that version, or restore approvals.db" + beforeName + "."

// An unconvertedError says which document of the build before cannot be converted.
type unconvertedError struct {
	what, id string
	cause    error
}

// Error implements error.
func (e *unconvertedError) Error() string {
	return fmt.Sprintf("%s %q cannot be read (%v)", e.what, e.id, e.cause)
}

// convert moves the documents of the build before into the bucket of this one. The transaction
// moves all of them or none. A file that was converted has such documents again if an old program
// opened it since. Then convert adds those that are absent, and the stops of both count.
func (s *Store) convert(tx *bbolt.Tx) error {
	if !hasOldForm(tx) {
		return nil
	}
	kinds := oldKinds
	if s.isCopy {
		kinds = restoredKinds
	}
	for _, k := range kinds {
		b := tx.Bucket([]byte(k.bucket))
		if b == nil || k.doc == nil {
			continue
		}
		err := b.ForEach(func(id, data []byte) error {
			d, err := k.doc(tx, string(id), data)
			if err == nil && d.Data != nil {
				err = s.addOld(tx, d)
			}
			if err != nil {
				return &unconvertedError{k.what, string(id), err}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, k := range oldKinds { // at the end, because some documents are made from two buckets
		err := tx.DeleteBucket([]byte(k.bucket))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
	}
	return putMarks(tx)
}

// addOld writes a converted document if it is absent. Stops are added to the stops that are there.
func (s *Store) addOld(tx *bbolt.Tx, d document.Doc) error {
	b := tx.Bucket(documents)
	held := b.Get(docKey(d.Key))
	switch {
	case held == nil:
		return b.Put(docKey(d.Key), wrapDoc(d))
	case d.Key != stopsKey:
		return nil
	}
	was, err := unwrapDoc(d.Key, held)
	if err != nil {
		return err
	}
	if d.Data, err = mergeStops(was.Data, d.Data); err != nil {
		return err
	}
	d.Rev = was.Rev + 1
	return b.Put(docKey(d.Key), wrapDoc(d))
}

// mergeStops returns the stops of held with the stops that an old program made since.
func mergeStops(held, since []byte) ([]byte, error) {
	all, err := stop.Decode(held)
	if err != nil {
		return nil, err
	}
	more, err := stop.Decode(since)
	if err != nil {
		return nil, err
	}
	for _, one := range more.List {
		if all, err = all.Add(one); err != nil {
			return nil, err
		}
	}
	for _, e := range more.Ended {
		if _, stands := all.Of(e.Target); stands {
			continue
		}
		all.List = append(all.List, stop.Stop{Target: e.Target, At: e.At})
		if all, err = all.Undo(e.Target); err != nil {
			return nil, err
		}
	}
	_, data, err := all.Encode()
	return data, err
}

// putMarks writes the marks for the build before.
func putMarks(tx *bbolt.Tx) error {
	stops, err := tx.CreateBucket(oldStops)
	if err != nil {
		return err
	}
	baselines, err := tx.CreateBucket(oldBaselines)
	if err != nil {
		return err
	}
	return errors.Join(stops.Put(oldStops, encodedMark()), baselines.Put(markKey, markBaseline))
}

func encodedMark() []byte {
	_, data, err := stop.Stops{List: []stop.Stop{markStop}}.Encode()
	if err != nil {
		panic(err) // it is a constant
	}
	return data
}

// hasOldForm reports whether prepare has to convert the file: the build before, or an old program
// since, wrote into it, or it is new and lacks the marks.
func hasOldForm(tx *bbolt.Tx) bool {
	for _, k := range oldKinds {
		b := tx.Bucket([]byte(k.bucket))
		switch k.bucket {
		case string(oldStops):
			if b == nil || !bytes.Equal(b.Get(oldStops), encodedMark()) {
				return true
			}
		case string(oldBaselines):
			if b == nil || b.Stats().KeyN != 1 || !bytes.Equal(b.Get(markKey), markBaseline) {
				return true
			}
		default:
			if b != nil {
				return true
			}
		}
	}
	return false
}

// keepBefore copies a file that was never converted beside itself, whole or not at all. It replaces
// the copy of an earlier conversion: this file is the newer one, and nothing else has its documents.
func (s *Store) keepBefore() (err error) {
	never := false
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		never = tx.Bucket(records) != nil && tx.Bucket(documents) == nil
		return nil
	})
	if err != nil || !never {
		return err
	}
	err = store.WriteFile(s.path+beforeName, 0o600, store.Replace, func(temp *os.File) error {
		if err := copyFile(temp, s.path); err != nil {
			return err
		}
		return verify(temp.Name())
	})
	if err != nil {
		return fmt.Errorf("the file has to be converted, and no copy of it can be kept as %q, "+
			"so nothing was changed: %w", s.path+beforeName, err)
	}
	s.before = s.path + beforeName
	return nil
}

// CopyBefore returns the path of the copy that Open made before it converted the file, or "" if
// Open converted nothing.
func (s *Store) CopyBefore() string { return s.before }
