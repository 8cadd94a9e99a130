package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// The catalog tells other processes since when syncs fail, and why, until one succeeds.
func TestFailure(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": "", "git": `,"required":true`})
	w.serve(map[string][]string{"fs": {"read"}, "git": {"log"}})
	w.sync()
	if f := w.load().Current().Failed; f != nil {
		t.Fatalf("failure after a successful sync = %+v", f)
	}
	w.Server("git").Outcome = outcome.Outcome{Status: outcome.Denied, Reason: "forbidden"}
	var last *catalog.Failure
	for n := range 3 {
		rep, err := w.Syncer.Sync(t.Context())
		if err == nil {
			t.Fatal("the sync succeeded, want a failure")
		}
		f := w.load().Current().Failed
		want := rep.Failure(err)
		if last != nil {
			want.Since = last.Since
		}
		if diff := cmp.Diff(want, f); diff != "" || f.Reason != catalog.FailedRequired || len(f.Servers) != 1 || f.Servers[0] != "git" {
			t.Errorf("failure %d: %+v (-want +got):\n%s", n, f, diff)
		}
		if n == 1 {
			w.Restart() // a process without knowledge of earlier failures
		}
		last = f
	}
	if last.At.Sub(last.Since) <= 0 {
		t.Errorf("since %v, at %v", last.Since, last.At)
	}
	w.Server("git").Outcome = outcome.Outcome{}
	w.sync()
	if f := w.load().Current().Failed; f != nil {
		t.Errorf("failure after another successful sync = %+v", f)
	}
}

func TestReportFailure(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, reason string // "": no failure
		config       string
		configErr    error
		err          error
	}{
		{"it worked", "", "v", nil, nil},
		{"canceled by the caller", "", "v", nil, fmt.Errorf("sync: %w", context.Canceled)},
		{"no config", catalog.FailedConfig, "", config.Faults{{Message: "x"}}, config.Faults{{Message: "x"}}},
		{"the store fails before the config is read", catalog.FailedStore, "", nil, errStore},
		{"a bad config with a last good copy", catalog.FailedStore, "v", config.Faults{{Message: "x"}}, errStore},
		{"a required server", catalog.FailedRequired, "v", nil, fmt.Errorf("sync: %w", catalog.ErrRequired)},
		{"out of time", catalog.FailedTime, "v", nil, fmt.Errorf("sync: %w", context.DeadlineExceeded)},
		{"disk full", catalog.FailedDisk, "v", nil, fmt.Errorf("store: %w", syscall.ENOSPC)},
		{"a newer catalog", catalog.FailedNewer, "", nil, fmt.Errorf("sync: %w", catalog.ErrNewer)},
		{"anything else", catalog.FailedStore, "v", nil, errors.New("arn:aws:s3:::secret")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rep := catalog.Report{StartedAt: began, Duration: time.Second, Config: tt.config, ConfigErr: tt.configErr}
			f := rep.Failure(tt.err)
			if tt.reason == "" {
				if f != nil {
					t.Errorf("%+v, want none", f)
				}
				return
			}
			if f == nil || f.Reason != tt.reason || !f.Since.Equal(began) || !f.At.Equal(began.Add(time.Second)) {
				t.Errorf("%+v, want %s", f, tt.reason)
			}
		})
	}
}
