package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// TimeLayout is the format of times in marks and in data. All such times have the same width, so
// that they sort as text.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

// FormatTime returns t in [TimeLayout].
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// Get returns the document of one key.
func Get(ctx context.Context, s Reader, key Key) (Doc, error) {
	docs, err := s.Docs(ctx, key)
	if err != nil {
		return Doc{Key: key}, err
	}
	return docs[0], nil
}

// Find returns the document of one key, or the error notFound if it is absent.
func Find(ctx context.Context, s Reader, key Key, notFound error) (Doc, error) {
	d, err := Get(ctx, s, key)
	if err == nil && d.Rev == 0 {
		err = notFound
	}
	return d, err
}

// Replace stores d instead of the stored document, at any revision. It reads the stored revision
// only after a conflict.
func Replace(ctx context.Context, s Store, d Doc) error {
	_, err := Retry(ctx, ErrConflict, func() (struct{}, error) {
		put := s.PutDocs(ctx, d)
		if !errors.Is(put, ErrConflict) {
			return struct{}{}, put
		}
		held, err := Get(ctx, s, d.Key)
		d.Rev = held.Rev
		return struct{}{}, cmp.Or(err, put)
	})
	return err
}

// Wrap adds the failed operation to *err, if it is not nil. It replaces [ErrConflict] with
// conflict, the error of a domain. The stores of the domains defer it.
func Wrap(err *error, conflict error, format string, args ...any) {
	if *err == nil {
		return
	}
	if errors.Is(*err, ErrConflict) {
		*err = conflict
	}
	*err = fmt.Errorf(format+": %w", append(args, *err)...)
}
