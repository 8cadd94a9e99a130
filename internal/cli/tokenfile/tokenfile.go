// Package tokenfile keeps documents in one JSON file: the sign-ins of a person at gateways.
//
// The processes of several MCP clients use the file at the same time. Each write replaces the file,
// if it still has the version that the writer read; package dir locks the folder during the
// comparison. A damaged file counts as empty, because a new sign-in can replace all that it has.
package tokenfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// Name is the name of the file.
const Name = "tokens.json"

// A Store is a [document.Store] in one file. All fields are required.
type Store struct {
	Objects object.Store // the folder of the file
	Now     func() time.Time
	Log     *slog.Logger
}

var _ document.Store = (*Store)(nil)

// version is the version of the file's format.
const version = 1

// A file is the content of the file.
type file struct {
	Version   int     `json:"version"`
	Documents []entry `json:"documents"`
}

// An entry is a document. Its data are in Data if they keep their bytes there, and otherwise in
// Bytes.
type entry struct {
	Part  string          `json:"part"`
	ID    string          `json:"id"`
	Rev   int64           `json:"rev"`
	Keep  time.Time       `json:"keep,omitzero"`
	Mark  string          `json:"mark,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Bytes []byte          `json:"bytes,omitempty"`
}

// read returns the documents that have not expired, and the file's version for a conditional write.
func (s *Store) read(ctx context.Context) (map[document.Key]document.Doc, string, error) {
	docs := map[document.Key]document.Doc{}
	o, err := s.Objects.Get(ctx, Name, "")
	if errors.Is(err, object.ErrNotFound) {
		return docs, object.IfAbsent, nil
	}
	if err != nil {
		return nil, "", err
	}
	var f file
	switch err := json.Unmarshal(o.Data, &f); {
	case err != nil || f.Version < version:
		s.Log.LogAttrs(ctx, slog.LevelWarn, "damaged file of sign-ins ignored",
			slog.String("file", Name), slog.Any("error", err))
		return docs, o.ETag, nil
	case f.Version > version:
		return nil, "", fmt.Errorf("%s has the format %d of a newer program: update this program",
			Name, f.Version)
	}
	for _, e := range f.Documents {
		if e.Keep.IsZero() || s.Now().Before(e.Keep) {
			d := document.Doc{
				Key: document.Key{Part: e.Part, ID: e.ID}, Data: e.Data, Rev: e.Rev, Keep: e.Keep,
				Mark: e.Mark,
			}
			if e.Bytes != nil {
				d.Data = e.Bytes
			}
			docs[d.Key] = d
		}
	}
	return docs, o.ETag, nil
}

// write replaces the file, or returns [object.ErrConflict] if it has another version than etag.
func (s *Store) write(
	ctx context.Context, docs map[document.Key]document.Doc, etag string,
) error {
	f := file{Version: version, Documents: []entry{}}
	for _, key := range slices.SortedFunc(maps.Keys(docs), byKey) {
		d := docs[key]
		e := entry{Part: key.Part, ID: key.ID, Rev: d.Rev, Keep: d.Keep, Mark: d.Mark}
		if again, err := json.Marshal(json.RawMessage(d.Data)); err == nil &&
			bytes.Equal(again, d.Data) {
			e.Data = again
		} else {
			e.Bytes = d.Data
		}
		f.Documents = append(f.Documents, e)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = s.Objects.Put(ctx, Name, append(data, '\n'), etag)
	return err
}

func byKey(a, b document.Key) int {
	return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.ID, b.ID))
}

// change runs f on the documents and writes them. It does so again if another process has written
// the file in the meantime.
func (s *Store) change(
	ctx context.Context, f func(docs map[document.Key]document.Doc) error,
) error {
	_, err := document.Retry(ctx, object.ErrConflict, func() (struct{}, error) {
		docs, etag, err := s.read(ctx)
		if err == nil {
			err = f(docs)
		}
		if err == nil {
			err = s.write(ctx, docs, etag)
		}
		return struct{}{}, err
	})
	return err
}

// Docs implements [document.Store].
func (s *Store) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	docs, _, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]document.Doc, len(keys))
	for i, key := range keys {
		out[i] = docs[key]
		out[i].Key = key
	}
	return out, nil
}

// PutDocs implements [document.Store].
func (s *Store) PutDocs(ctx context.Context, docs ...document.Doc) error {
	if err := document.CheckPut(docs); err != nil {
		return err
	}
	return s.change(ctx, func(stored map[document.Key]document.Doc) error {
		for _, d := range docs {
			if stored[d.Key].Rev != max(d.Rev, 0) {
				return &document.ConflictError{Key: d.Key}
			}
		}
		for _, d := range docs {
			if d.Data == nil {
				delete(stored, d.Key)
				continue
			}
			d.Mark = cmp.Or(d.Mark, stored[d.Key].Mark)
			d.Rev = document.NextRev(d.Rev)
			stored[d.Key] = d
		}
		return nil
	})
}

// ListDocs implements [document.Store].
func (s *Store) ListDocs(
	ctx context.Context, part string,
) (docs []document.Doc, all bool, err error) {
	stored, _, err := s.read(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, key := range slices.SortedFunc(maps.Keys(stored), byKey) {
		if key.Part == part {
			docs = append(docs, stored[key])
		}
	}
	return docs, true, nil
}

// TouchDoc implements [document.Store].
func (s *Store) TouchDoc(ctx context.Context, key document.Key, mark string) error {
	return s.change(ctx, func(stored map[document.Key]document.Doc) error {
		d, ok := stored[key]
		if !ok {
			return fmt.Errorf("touch %q %q: %w", key.Part, key.ID, document.ErrNotFound)
		}
		d.Mark = mark
		stored[key] = d
		return nil
	})
}
