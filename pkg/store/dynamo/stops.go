package dynamo

import (
	"cmp"
	"context"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/document"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

var _ stop.Store = (*Store)(nil)

// stopKey is both keys of the one item with what people stopped.
const stopKey = "STOP"

// Stops implements [stop.Store].
func (s *Store) Stops(ctx context.Context) (held stop.Stops, err error) {
	defer store.Wrap(&err, "get stops")
	held, err = read(ctx, s, stopsKey(), decodeStops)
	return held, as(err, approval.ErrNotFound, nil)
}

// PutStops implements [stop.Store].
func (s *Store) PutStops(ctx context.Context, n stop.Stops) (_ stop.Stops, err error) {
	defer store.Wrap(&err, "put stops")
	next, data, err := n.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return stop.Stops{}, err
	}
	put, writeID := s.putDoc(stopsKey(), "stop", data, n.Rev)
	if err := s.written(ctx, stopsKey(), writeID, s.putOne(ctx, put)); err != nil {
		return stop.Stops{}, as(err, approval.ErrConflict, stop.ErrConflict)
	}
	return next, nil
}

// Standing returns what Get, Stops and, unless agent is "", Granted return, by one request for all.
// Without a record the error is [approval.ErrNotFound], and the rest is there all the same.
func (s *Store) Standing(ctx context.Context, id tool.ID, agent string) (r approval.Record, held stop.Stops, g request.Granted, err error) {
	defer store.Wrap(&err, "get approval %q, stops and grants", id)
	keys := []document.Key{keyOf(recordKey(id)), keyOf(stopsKey())}
	if agent != "" {
		keys = append(keys, keyOf(grantedKey(agent)))
	}
	b, err := again(func() (b standing, err error) {
		items, err := s.batch(ctx, keys)
		for _, it := range items {
			if err == nil {
				err = b.take(it)
			}
		}
		return b, err
	})
	if err == nil && !b.found {
		err = approval.ErrNotFound
	}
	return b.record, b.stops, b.granted, err
}

// standing are the items that a call reads.
type standing struct {
	record  approval.Record
	found   bool
	stops   stop.Stops
	granted request.Granted
}

func (b *standing) take(it item) (err error) {
	switch pk := textOf(it["PK"]); {
	case pk == stopKey:
		b.stops, err = decodeStops(it)
	case strings.HasPrefix(pk, grantPrefix):
		b.granted, err = decodeGranted(it)
	default:
		b.record, err = decode(it)
		b.found = err == nil
	}
	return err
}

func decodeStops(it item) (stop.Stops, error) {
	held, err := stop.Decode([]byte(textOf(it["stop"])))
	if err != nil {
		return stop.Stops{}, broken(it, err)
	}
	return held, nil
}

func stopsKey() item { return item{"PK": text(stopKey), "SK": text(stopKey)} }
