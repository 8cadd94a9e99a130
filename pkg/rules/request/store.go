package request

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// The keys of documents. An IAM role is limited to parts that begin with certain letters. So the
// documents that the function for agents may write are in other parts than the documents that it
// may only read.
func listKey(agent string) document.Key { return document.Key{Part: askPart + agent, ID: "ASKED"} }
func usedKey(id string) document.Key    { return document.Key{Part: "USED#" + id, ID: "USED"} }
func pointerKey(id string) document.Key { return document.Key{Part: askPart, ID: id} }
func argumentsKey(agent, id string) document.Key {
	return document.Key{Part: askPart + agent, ID: "ARGS#" + id}
}

// GrantedKey returns the key of the document with the decisions about an agent's requests.
func GrantedKey(agent string) document.Key {
	return document.Key{Part: grantPart + agent, ID: "GRANTED"}
}

const (
	askPart   = "ASK#" // only pointers: the agent of each request
	grantPart = "GRANT#"
)

// A Store keeps requests and the decisions about them. It is safe for concurrent use.
type Store struct {
	docs document.Store
	now  func() time.Time
}

var _ Asks = (*Store)(nil)

// NewStore returns the requests in docs. A nil now is time.Now.
func NewStore(docs document.Store, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{docs, now}
}

// List implements [Asks].
func (s *Store) List(ctx context.Context, key string) (a List, err error) {
	defer document.Wrap(&err, ErrConflict, "get requests")
	d, err := document.Get(ctx, s.docs, listKey(key))
	if err != nil || d.Rev == 0 {
		return List{}, err
	}
	a, err = DecodeList(key, d.Data)
	a.Rev = d.Rev
	return a, err
}

// PutList implements [Asks].
func (s *Store) PutList(
	ctx context.Context, a List, added string, arguments json.RawMessage,
) (_ List, err error) {
	defer document.Wrap(&err, ErrConflict, "put requests")
	next, data, err := a.Encode()
	r, wrong := a.Added(added, arguments)
	if err := cmp.Or(err, wrong); err != nil {
		return List{}, err
	}
	key := a.Agent.Key()
	docs := []document.Doc{{Key: listKey(key), Data: data, Rev: a.Rev}}
	if added != "" {
		docs = append(docs, document.Doc{
			Key: pointerKey(added), Data: []byte(key), Mark: document.FormatTime(r.Expires), Keep: r.KeepUntil(),
		})
	}
	if len(arguments) > 0 {
		docs = append(docs, document.Doc{Key: argumentsKey(key, added), Data: arguments, Keep: r.Expires})
	}
	if err := s.docs.PutDocs(ctx, docs...); err != nil {
		return List{}, err
	}
	return next, nil
}

// Granted implements [Asks].
func (s *Store) Granted(ctx context.Context, key string) (_ Granted, err error) {
	defer document.Wrap(&err, ErrConflict, "get grants")
	d, err := document.Get(ctx, s.docs, GrantedKey(key))
	if err != nil {
		return Granted{}, err
	}
	return DecodeGrantedDoc(d)
}

// PutGranted stores g as PutList stores requests.
func (s *Store) PutGranted(ctx context.Context, g Granted) (_ Granted, err error) {
	defer document.Wrap(&err, ErrConflict, "put grants")
	next, data, err := g.Encode()
	if err == nil {
		d := document.Doc{Key: GrantedKey(g.Agent.Key()), Data: data, Rev: g.Rev}
		err = s.docs.PutDocs(ctx, d)
	}
	if err != nil {
		return Granted{}, err
	}
	return next, nil
}

// Use implements [Asks].
func (s *Store) Use(
	ctx context.Context, id string, now, keep time.Time,
) (used time.Time, err error) {
	defer document.Wrap(&err, ErrConflict, "use confirmation %s", id)
	now = now.UTC().Truncate(time.Microsecond)
	err = s.docs.PutDocs(ctx, document.Doc{
		Key: usedKey(id), Data: []byte(document.FormatTime(now)), Keep: keep.Add(keepFor),
	})
	switch {
	case err == nil:
		return now, nil
	case !errors.Is(err, document.ErrConflict):
		return time.Time{}, err
	}
	if used, err = s.Used(ctx, id); err != nil {
		return time.Time{}, err
	}
	return used, ErrUsed
}

// Used returns when the confirmed call of a request was made; the zero time: never.
func (s *Store) Used(ctx context.Context, id string) (used time.Time, err error) {
	defer document.Wrap(&err, ErrConflict, "look for use of %s", id)
	d, err := document.Get(ctx, s.docs, usedKey(id))
	if err != nil || d.Rev == 0 {
		return time.Time{}, err
	}
	return time.Parse(document.TimeLayout, string(d.Data))
}

// Arguments returns the arguments of a request's call, byte for byte, or [ErrNotFound]. They are
// stored until DropArguments, or until the request expires.
func (s *Store) Arguments(ctx context.Context, key, request string) (_ json.RawMessage, err error) {
	defer document.Wrap(&err, ErrConflict, "get arguments of %s", request)
	d, err := document.Get(ctx, s.docs, argumentsKey(key, request))
	switch {
	case err != nil:
		return nil, err
	case len(d.Data) == 0 || !s.now().Before(d.Keep): // a driver may keep them a few seconds longer
		return nil, ErrNotFound
	}
	return d.Data, nil
}

// DropArguments removes the arguments of a request. Absent arguments are no error. It replaces
// them with an empty, expired document, so that no role needs a right to delete.
func (s *Store) DropArguments(ctx context.Context, key, request string) (err error) {
	defer document.Wrap(&err, ErrConflict, "drop arguments of %s", request)
	return document.Replace(ctx, s.docs, document.Doc{
		Key: argumentsKey(key, request), Data: []byte{}, Rev: 1, Keep: s.now(),
	})
}

// Whose returns the key of the agent that made a request, or [ErrNotFound]. The key is stored until
// [Request.KeepUntil], longer than the request is open.
func (s *Store) Whose(ctx context.Context, request string) (key string, err error) {
	defer document.Wrap(&err, ErrConflict, "find request %s", request)
	d, err := document.Find(ctx, s.docs, pointerKey(request), ErrNotFound)
	return string(d.Data), err
}

// Requests returns the requests with a known agent, sorted by id, even if they are decided or
// expired. all is false if there are more than a driver reads at once, or if some cannot be read.
func (s *Store) Requests(ctx context.Context) (list []Pointer, all bool, err error) {
	defer document.Wrap(&err, ErrConflict, "list requests")
	docs, all, err := s.docs.ListDocs(ctx, askPart)
	if err != nil {
		return nil, false, err
	}
	for _, d := range docs {
		expires, err := time.Parse(document.TimeLayout, d.Mark)
		if err != nil {
			all = false // skip it: people must still see the other requests
			continue
		}
		list = append(list, Pointer{Request: d.ID, Key: string(d.Data), Expires: expires, KeepUntil: d.Keep})
	}
	return list, all, nil
}
