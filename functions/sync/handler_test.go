package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Lambda shows the error to the caller that invoked the function. So only the log has the cause.
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
			out, err := handler{program: p}.Invoke(t.Context(), []byte(`{}`))
			if err == nil || len(out) > 0 || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "arn:") {
				t.Errorf("Invoke = %s, %v", out, err)
			}
			if !strings.Contains(log.String(), c.fault.Error()) {
				t.Errorf("the log does not contain the cause: %s", log.String())
			}
		})
	}
}

// The function sends a new notice in the outbox without a sync.
func TestHandlerSendsNotices(t *testing.T) {
	var got []string
	room := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, string(body))
	}))
	defer room.Close()
	objects, approvals := &objecttest.Mem{}, &approvaltest.Mem{}
	box := notify.NewOutbox(approvals, nil)
	_, err := objects.Put(t.Context(), config.Key, []byte(`{"mcpServers": {}, "notify": [{"type": "slack", "url": "`+room.URL+`"}]}`), "")
	require.OK(t, err)
	settings := boot.Settings{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AdminURL: "https://gate.example.com"}
	p := boot.New(settings, boot.Stores{Objects: objects, Approvals: approvals, Outbox: box}, boot.Options{Sends: true})
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	out, err := handler{program: p}.Invoke(t.Context(), []byte(`{"source":"portcullis.outbox","id":"event-1"}`))
	require.OK(t, err)
	if len(got) != 1 || !strings.Contains(got[0], "https://gate.example.com/admin/requests/R-7KQ2M4XD") || !strings.Contains(string(out), `"result":"sent"`) || !strings.Contains(string(out), `"told":1`) {
		t.Errorf("Invoke = %s; the receiver got %q", out, got)
	}
	if p.Syncer.Catalog() != nil {
		t.Error("a sync ran")
	}
	if out, err = (handler{program: p}).Invoke(t.Context(), []byte(`{"source":"portcullis.outbox","id":"event-1"}`)); err != nil || len(got) != 1 {
		t.Errorf("the same event again: %s, %v; the receiver got %d messages, want 1",
			out, err, len(got))
	}
}
