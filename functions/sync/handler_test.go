package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
)

// Lambda shows the error to whoever invoked: the cause is for the log alone.
func TestHandlerFailure(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		want  string
	}{
		"a store that fails": {errors.New("arn:aws:s3:::bucket"), "the log says why"},
		"out of time":        {context.DeadlineExceeded, "ran out of time"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			objects := &objecttest.Mem{OnGet: func(context.Context, string) error { return c.fault }}
			p := boot.New(boot.Settings{}, boot.Stores{Objects: objects, Approvals: &approvaltest.Mem{}}, boot.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			out, err := handler{p}.Invoke(t.Context(), []byte(`{}`))
			if err == nil || len(out) > 0 || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "arn:") {
				t.Errorf("Invoke = %s, %v", out, err)
			}
			if !strings.Contains(log.String(), c.fault.Error()) {
				t.Errorf("the log does not hold the cause: %s", log.String())
			}
		})
	}
}
