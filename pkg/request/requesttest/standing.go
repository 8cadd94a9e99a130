package requesttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Standing is a store that returns what decides about a call together: a record, what is stopped, and
// what was granted to an agent.
type Standing interface {
	approval.Store
	stop.Store
	PutGranted(ctx context.Context, g request.Granted) (request.Granted, error)
	Standing(ctx context.Context, id tool.ID, agent string) (approval.Record, stop.Stops, request.Granted, error)
}

// RunStanding checks what such a read returns. open returns an empty store.
func RunStanding(t *testing.T, open func(t *testing.T) Standing) {
	s, id, agent := open(t), tool.ID{Server: "fs", Name: "read"}, Agent("ci")
	var stops stop.Stops
	var granted request.Granted
	check := func(step string, rev int64) {
		t.Helper()
		for key, want := range map[string]request.Granted{"": {}, agent.Key(): granted, Agent("cd").Key(): {}} {
			r, held, g, err := s.Standing(t.Context(), id, key)
			if missing := errors.Is(err, approval.ErrNotFound); missing != (rev == 0) || !missing && err != nil || r.Rev != rev {
				t.Errorf("%s: the record is at rev %d, %v; want %d", step, r.Rev, err, rev)
			}
			if d := cmp.Diff(stops, held); d != "" {
				t.Errorf("%s: stops (-want +got):\n%s", step, d)
			}
			if d := cmp.Diff(want, g); d != "" {
				t.Errorf("%s: granted to %q (-want +got):\n%s", step, key, d)
			}
		}
	}
	putStops := func(next stop.Stops) {
		t.Helper()
		var err error
		next.Rev = stops.Rev
		stops, err = s.PutStops(t.Context(), next)
		require.OK(t, err)
	}
	check("nothing stored", 0)
	putStops(stop.Stops{List: []stop.Stop{stoptest.Server("fs")}})
	check("a stop alone", 0)
	asked := To("fs", "read")
	asked.ID = request.NewID()
	granted, err := s.PutGranted(t.Context(), request.Granted{Agent: agent, List: []request.Decision{request.Decide(asked, request.Allowed, 60, "kim", "", time.Now())}})
	require.OK(t, err)
	check("a stop and a grant", 0)
	r, err := s.Put(t.Context(), approval.Record{Server: id.Server, Tool: id.Name, State: approval.Pending}, nil)
	require.OK(t, err)
	check("all three", r.Rev)
	undone, err := stops.Undo(stop.Target{Server: "fs"})
	require.OK(t, err)
	putStops(undone)
	check("undone", r.Rev)
	granted, err = s.PutGranted(t.Context(), granted.Without(asked.ID))
	require.OK(t, err)
	check("taken back", r.Rev)

	res := tool.ID{Server: "fs", Name: "file:///a b", Kind: tool.Resource}
	_, err = s.Put(t.Context(), approval.Record{Server: res.Server, Tool: res.Name, Kind: res.Kind, State: approval.Pending}, nil)
	require.OK(t, err)
	if r, _, _, err := s.Standing(t.Context(), res, agent.Key()); err != nil || r.ID() != res {
		t.Errorf("Standing of a resource = %v, %v", r.ID(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := s.Standing(ctx, id, agent.Key()); !errors.Is(err, context.Canceled) {
		t.Errorf("Standing = %v, want Canceled", err)
	}
}
