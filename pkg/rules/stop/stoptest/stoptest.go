// Package stoptest has stops for tests.
package stoptest

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Server returns a stop of a server, by kim.
func Server(name string) stop.Stop {
	return stop.Stop{Target: stop.Target{Server: name}, Reason: "key leaked", By: "kim", At: time.Date(2026, 11, 20, 12, 0, 0, 1, time.UTC)}
}

// Agent returns a stop of an agent, by kim.
func Agent(id string) stop.Stop {
	s := Server("")
	s.Agent = id
	return s
}

// All returns a stop of everything, by kim.
func All() stop.Stop {
	s := Server("")
	s.All = true
	return s
}

// Put stores these stops, and no others.
func Put(t testing.TB, docs document.Store, stops ...stop.Stop) {
	t.Helper()
	_, err := stop.NewStore(docs).Change(t.Context(), func(held stop.Stops) (stop.Stops, error) {
		held.List = stops
		return held, nil
	})
	require.OK(t, err)
}
