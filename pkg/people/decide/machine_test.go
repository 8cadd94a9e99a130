package decide_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A decision that this machine could not store is refused with the cause, not as an internal error.
func TestExplainOfTheMachine(t *testing.T) {
	f := newFixture(t)
	service := decide.New(f.States, f.Approvals, f.Decide)
	for _, test := range []struct {
		err    error
		status int
		says   string
	}{
		{syscall.ENOSPC, http.StatusServiceUnavailable, "no space left on the disk"},
		{syscall.EDQUOT, http.StatusServiceUnavailable, "no space left on the disk"},
		{syscall.EMFILE, http.StatusServiceUnavailable, "can open no more files"},
		{errors.New("at /home/kim"), http.StatusInternalServerError, "internal error"},
	} {
		e := service.Explain(t.Context(), "approve", fmt.Errorf("put %q: %w", "/home/kim", test.err))
		if e.Status != test.status || !strings.Contains(e.Detail, test.says) || strings.Contains(e.Detail, "kim") {
			t.Errorf("%v: %d %s", test.err, e.Status, e.Detail)
		}
	}
}
