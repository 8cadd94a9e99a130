package bolt

import (
	"cmp"
	"context"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

var _ stop.Store = (*Store)(nil)

// One bucket with one key: what people stopped.
var (
	stops    = []byte("stop")
	stopsKey = []byte("stop")
)

// Stops implements [stop.Store].
func (s *Store) Stops(ctx context.Context) (held stop.Stops, err error) {
	defer store.Wrap(&err, "get stops")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		held, err = getStops(tx)
		return err
	})
	return held, err
}

// Standing returns what Get, Stops and, unless agent is "", Granted return, of one moment. Without a
// record the error is [approval.ErrNotFound], and the rest is there all the same.
func (s *Store) Standing(ctx context.Context, id tool.ID, agent string) (r approval.Record, held stop.Stops, g request.Granted, err error) {
	defer store.Wrap(&err, "get approval %q and stops", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		if held, err = getStops(tx); err != nil {
			return err
		}
		if agent != "" {
			if g, err = getDoc(tx, granted, agent, request.DecodeGranted); err != nil {
				return err
			}
		}
		r, err = get(tx, id)
		return err
	})
	return r, held, g, err
}

// PutStops implements [stop.Store].
func (s *Store) PutStops(ctx context.Context, n stop.Stops) (next stop.Stops, err error) {
	defer store.Wrap(&err, "put stops")
	next, data, err := n.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return stop.Stops{}, err
	}
	err = s.update(func(tx *bbolt.Tx) error {
		held, err := getStops(tx)
		switch {
		case err != nil:
			return err
		case held.Rev != n.Rev:
			return stop.ErrConflict
		}
		return tx.Bucket(stops).Put(stopsKey, data)
	})
	if err != nil {
		return stop.Stops{}, err
	}
	return next, nil
}

func getStops(tx *bbolt.Tx) (stop.Stops, error) {
	data := tx.Bucket(stops).Get(stopsKey)
	if data == nil {
		return stop.Stops{}, nil
	}
	return stop.Decode(data)
}
