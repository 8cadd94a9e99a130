package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/stop/stoptest"
)

func TestStops(t *testing.T) {
	stoptest.Run(t, func(t *testing.T) stop.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	})
}

// What is stopped stays so when the program starts again.
func TestStopsOutliveTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s := open(t, path, nil)
	stoptest.Put(t, s, stoptest.Server("git"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := open(t, path, nil).Stops(t.Context())
	if _, ok := held.Server("git"); err != nil || !ok {
		t.Errorf("after a restart: %+v, %v", held, err)
	}
}
