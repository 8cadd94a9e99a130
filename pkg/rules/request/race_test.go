package request_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func sorted(list []request.Pointer) []request.Pointer {
	slices.SortFunc(list, func(a, b request.Pointer) int { return cmp.Compare(a.Request, b.Request) })
	return list
}

// atOnce calls do n times, all at the same time.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// open adds a request through [request.ChangeList], as an agent does.
func open(ctx context.Context, s *request.Store, agent request.Agent, r request.Request) (held request.Request, added bool, err error) {
	_, err = request.ChangeList(ctx, s, agent, func(a request.List) (next request.List, id string, _ json.RawMessage, err error) {
		if next, held, added, err = a.Add(r, request.Granted{}, nil, time.Now()); added {
			id = held.ID
		}
		return next, id, nil, err
	})
	return held, added, err
}

func oneAgent(t *testing.T, s *request.Store) {
	const tools, askers = request.MaxOpen + 2, 100
	agent := requesttest.Agent("ci")
	var ids [askers]string
	var made atomic.Int64
	atOnce(askers, func(i int) {
		held, added, err := open(t.Context(), s, agent, requesttest.To("git", fmt.Sprint(i%tools)))
		if err != nil && !errors.Is(err, request.ErrTooMany) {
			t.Errorf("asker %d: %v", i, err)
		}
		if ids[i] = held.ID; added && err == nil {
			made.Add(1)
		}
	})
	a, err := s.List(t.Context(), agent.Key())
	require.OK(t, err)
	if len(a.List) != request.MaxOpen || made.Load() != request.MaxOpen || a.Rev != request.MaxOpen {
		t.Errorf("%d requests at rev %d of %d that were made, want %d", len(a.List), a.Rev, made.Load(), request.MaxOpen)
	}
	for i, id := range ids {
		if r, is := a.Find(id); id != "" && (!is || r.Tool != fmt.Sprint(i%tools)) {
			t.Errorf("asker %d got the id %s, which is %+v", i, id, r)
		}
	}
	if list, _, err := s.Requests(t.Context()); err != nil || len(list) != request.MaxOpen {
		t.Errorf("%d requests are listed, %v", len(list), err)
	}
}

func twoPeople(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	var a request.List
	for i := range request.MaxOpen {
		a, _ = ask(t, s, agent, requesttest.To("git", fmt.Sprint(i)))
	}
	var won [2 * request.MaxOpen]bool
	atOnce(len(won), func(i int) {
		r, by := a.List[i/2], fmt.Sprint("person", i)
		_, err := s.ChangeGranted(t.Context(), agent, func(g request.Granted) (request.Granted, error) {
			return g.Add(request.Decide(r, request.Allowed, 60, by, "", time.Now()), false, time.Now())
		})
		if won[i] = err == nil; err != nil && !errors.Is(err, request.ErrDecided) {
			t.Errorf("%s: %v", by, err)
		}
	})
	g, err := s.Granted(t.Context(), agent.Key())
	if err != nil || len(g.List) != request.MaxOpen || g.Rev != request.MaxOpen {
		t.Errorf("%d decisions at rev %d, %v; want %d", len(g.List), g.Rev, err, request.MaxOpen)
	}
	for i, r := range a.List {
		d, is := g.Find(r.ID)
		if !is || won[2*i] == won[2*i+1] || d.By != fmt.Sprint("person", 2*i+map[bool]int{true: 0, false: 1}[won[2*i]]) {
			t.Errorf("request %d: %v and %v decided, and the store has %+v", i, won[2*i], won[2*i+1], d)
		}
	}
}
