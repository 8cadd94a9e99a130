package token

import (
	"context"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// part is the partition of all tokens. DynamoDB allows three thousand reads a second of one
// partition, and splits a hot partition by ID.
const part = "TOKENS"

// A Store keeps tokens. It is safe for concurrent use.
type Store struct{ docs document.Store }

// NewStore returns the tokens in docs.
func NewStore(docs document.Store) *Store { return &Store{docs} }

// Token returns the token, or [ErrNotFound]. The result includes every write that returned before
// the call of Token began.
func (s *Store) Token(ctx context.Context, id string) (t Token, err error) {
	defer document.Wrap(&err, ErrConflict, "get token %q", id)
	d, err := document.Find(ctx, s.docs, docKey(id), ErrNotFound)
	if err != nil {
		return Token{}, err
	}
	return decodeDoc(d)
}

// PutToken stores t if the stored revision is still t.Rev (0: must not exist yet) and returns it
// at its new Rev, or [ErrConflict] if another writer came first. It does not change LastUsed.
func (s *Store) PutToken(ctx context.Context, t Token) (_ Token, err error) {
	defer document.Wrap(&err, ErrConflict, "put token %q", t.ID)
	next, data, err := t.Encode()
	if err == nil {
		err = s.docs.PutDocs(ctx, document.Doc{Key: docKey(t.ID), Data: data, Rev: t.Rev})
	}
	if err != nil {
		return Token{}, err
	}
	return next, nil
}

// TouchToken sets only LastUsed, at any revision, or returns [ErrNotFound].
func (s *Store) TouchToken(ctx context.Context, id string, at time.Time) (err error) {
	defer document.Wrap(&err, ErrConflict, "touch token %q", id)
	err = s.docs.TouchDoc(ctx, docKey(id), document.FormatTime(at))
	if errors.Is(err, document.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// Tokens returns every token, by id.
func (s *Store) Tokens(ctx context.Context) (all []Token, err error) {
	defer document.Wrap(&err, ErrConflict, "list tokens")
	docs, whole, err := s.docs.ListDocs(ctx, part)
	if err == nil && !whole {
		err = errors.New("some tokens cannot be read")
	}
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		t, err := decodeDoc(d)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func decodeDoc(d document.Doc) (Token, error) {
	t, err := Decode(d.Data, d.Mark)
	t.Rev = d.Rev
	return t, err
}

func docKey(id string) document.Key { return document.Key{Part: part, ID: id} }
