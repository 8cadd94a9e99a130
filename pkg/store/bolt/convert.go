package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// beforeName follows the file's name in the name of the copy that is made before a conversion.
const beforeName = ".before-documents"

// The previous build reads stops, tokens and baselines from separate buckets. If these buckets were
// empty in a file of this version, that build would find no stop, and would approve the next list
// of every server with "on_change" automatically, as its first list. So each file has two marks for
// that build: a stop of everything in the bucket of stops, and a baseline that it cannot read. The
// sync of that build fails at the baseline, and its error contains markReason.
var (
	markStop     = stop.Stop{Target: stop.Target{All: true}, Reason: markReason, By: "portcullis"}
	markBaseline = []byte(`{"at":"` + markReason + `"}`)
	markKey      = []byte("portcullis:converted") // no server has a colon in its name
)

const markReason = "A newer version of portcullis wrote this file. " +
	"Start that version, or restore approvals.db" + beforeName + "."

// ErrUnconverted says that a document of the previous build cannot be read. The file stays
// unchanged.
var ErrUnconverted = errors.New("nothing was converted, and the previous version still opens the " +
	"file; start that version, or restore a copy: portcullis restore FILE --dir DIR")

// An unconvertedError says which document of the previous build cannot be converted.
type unconvertedError struct {
	what, id string
	cause    error
}

// Error implements error.
func (e *unconvertedError) Error() string {
	return fmt.Sprintf("%s %q cannot be read (%v)", e.what, e.id, e.cause)
}

// convert moves the documents of the previous build into the bucket of this build. The transaction
// moves all of them or none. If an old program has opened a converted file since, the file has such
// documents again. Then convert adds the documents that are absent, and keeps the stops of both
// programs.
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
	for _, k := range oldKinds { // after all documents, because some of them come from two buckets
		err := tx.DeleteBucket([]byte(k.bucket))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
	}
	return putMarks(tx)
}

// addOld writes a converted document if it is absent. If the document exists, it adds stops and
// revocations that an old program wrote since.
func (s *Store) addOld(tx *bbolt.Tx, d document.Doc) error {
	b := tx.Bucket(documents)
	held := b.Get(docKey(d.Key))
	if held == nil {
		return b.Put(docKey(d.Key), wrapDoc(d))
	}
	was, err := unwrapDoc(d.Key, held)
	if err != nil {
		return err
	}
	data := was.Data
	switch {
	case d.Key == stopsKey:
		data, err = mergeStops(was.Data, d.Data)
	case d.Part == tokenPart:
		data, err = mergeToken(was.Data, d.Data)
	}
	if err != nil || bytes.Equal(data, was.Data) {
		return err
	}
	was.Data, was.Rev = data, was.Rev+1
	return b.Put(docKey(d.Key), wrapDoc(was))
}

// mergeToken returns the token in held. If an old program has revoked the token since, mergeToken
// revokes it.
func mergeToken(held, since []byte) ([]byte, error) {
	was, err := token.Decode(held, "")
	if err != nil {
		return nil, err
	}
	now, err := token.Decode(since, "")
	if err != nil || now.RevokedAt.IsZero() || !was.RevokedAt.IsZero() {
		return held, err
	}
	_, data, err := was.Revoke(now.RevokedBy, now.RevokedAt).Encode()
	return data, err
}

// mergeStops returns the stops in held, and adds the stops that an old program made since.
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
		if moveOn(all, one.Target, one.At) {
			continue
		}
		if all, err = all.Add(one); err != nil {
			return nil, err
		}
	}
	for _, e := range more.Ended {
		if moveOn(all, e.Target, e.At) {
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

// moveOn reports whether s has a stop of the target. It moves the time of that stop forward to at,
// because a stop ends the grants from before its time.
func moveOn(s stop.Stops, target stop.Target, at time.Time) bool {
	for i := range s.List {
		if one := &s.List[i]; one.Target == target {
			if at.After(one.At) {
				one.At = at
			}
			return true
		}
	}
	return false
}

// putMarks writes the marks for the previous build.
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
		panic(err) // cannot happen: the stop is a constant
	}
	return data
}

// hasOldForm reports whether prepare has to convert the file: an old program has written into it,
// or the file is new and lacks the marks.
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

// keepBefore makes a copy, in the same folder, of a file that was never converted. The copy is
// complete, or keepBefore makes none. If a different copy of an earlier conversion exists,
// keepBefore renames that copy: it appends the time of the copy.
func (s *Store) keepBefore() (err error) {
	never, last := false, 0
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		never, last = tx.Bucket(records) != nil && tx.Bucket(documents) == nil, tx.ID()
		return nil
	})
	if err != nil || !never {
		return err
	}
	if is, err := s.isCopied(last); is || err != nil {
		s.before = s.path + beforeName
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

// isCopied reports whether keepBefore has made a copy already that has the last transaction of the
// file. It renames an existing copy that is damaged or ends with another transaction.
func (s *Store) isCopied(last int) (bool, error) {
	before := s.path + beforeName
	info, err := os.Stat(before)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if verify(before) == nil {
		o := &bbolt.Options{ReadOnly: true, Timeout: lockWait}
		db, err := bbolt.Open(before, 0o600, o)
		if err != nil {
			return false, err
		}
		copied := 0
		err = db.View(func(tx *bbolt.Tx) error { copied = tx.ID(); return nil })
		if err = errors.Join(err, db.Close()); err != nil || copied == last {
			return err == nil, err
		}
	}
	return false, os.Rename(before, before+info.ModTime().UTC().Format("-20060102T150405.000Z"))
}

// CopyBefore returns the path of the copy that Open made before it converted the file, or "" if
// Open converted nothing.
func (s *Store) CopyBefore() string { return s.before }
