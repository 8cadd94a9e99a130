package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sqsEvent returns the event with which Lambda delivers messages.
func sqsEvent(t *testing.T, bodies ...string) []byte {
	t.Helper()
	var messages []types.Message
	for i, body := range bodies {
		messages = append(messages, types.Message{MessageId: aws.String(fmt.Sprint("m", i)), Body: &body})
	}
	return lambdatest.QueueEvent(messages...)
}

// job returns the body of a message about these servers.
func job(t *testing.T, servers ...string) string {
	t.Helper()
	round := catalog.Round{Began: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	body, err := catalog.Job{Round: round, Servers: servers}.Encode()
	require.OK(t, err)
	return string(body)
}

// lineLog writes lines as the functions do.
func lineLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: lambdacontext.ReplaceAttr}))
}

// A message succeeds or fails. The error text does not contain the cause; the log does.
func TestWork(t *testing.T) {
	for name, c := range map[string]struct {
		event  []byte
		report catalog.LoadReport
		err    error
		want   string // of the error; "": none
		log    string
		loads  int
	}{
		"done": {sqsEvent(t, job(t, "fs", "git")), catalog.LoadReport{Put: 2}, nil,
			"", "servers loaded", 1},
		"two messages": {sqsEvent(t, job(t, "fs"), job(t, "git")),
			catalog.LoadReport{Put: 1}, nil, "", "servers loaded", 2},
		"asked by an earlier message": {sqsEvent(t, job(t, "fs")),
			catalog.LoadReport{Skipped: []string{"fs"}}, nil, "", `"skipped":1`, 1},
		"a store fails": {sqsEvent(t, job(t, "fs")), catalog.LoadReport{},
			errors.New("arn:aws:s3:::bucket"), "delivers the message again", "arn:aws", 1},
		"no time left": {sqsEvent(t, job(t, "fs")), catalog.LoadReport{Unasked: 1},
			catalog.ErrUnasked, "delivers the message again", "no time", 1},
		"poisoned": {sqsEvent(t, "arn:x"), catalog.LoadReport{}, nil, "cannot be read",
			"invalid", 0},
		"from a later version": {sqsEvent(t, `{"format":2}`), catalog.LoadReport{}, nil,
			"cannot be read", "format 2", 0},
		"without servers": {sqsEvent(t, job(t)), catalog.LoadReport{}, catalog.ErrJob,
			"cannot be read", "cannot be read", 1},
		"direct invocation": {[]byte(`{}`), catalog.LoadReport{}, nil,
			"invoke the sync function", "", 0},
		"empty event": {nil, catalog.LoadReport{}, nil, "invoke the sync function", "", 0},
		"S3 event": {[]byte(`{"Records":[{"eventSource":"aws:s3"}]}`), catalog.LoadReport{}, nil,
			"messages of its queue", "", 0},
		"no JSON": {[]byte(`{`), catalog.LoadReport{}, nil, "not JSON", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			loads := 0
			h := workHandler{log: lineLog(&log)}
			h.do = func(context.Context, catalog.Job) (catalog.LoadReport, error) {
				loads++
				return c.report, c.err
			}
			_, err := h.Invoke(t.Context(), c.event)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err != nil && strings.Contains(err.Error(), "arn:") {
				t.Errorf("Invoke = %v, want %q", err, c.want)
			}
			lambdatest.Lines(t, log.String())
			if loads != c.loads || !strings.Contains(log.String(), c.log) {
				t.Errorf("%d loads, want %d; log %s", loads, c.loads, log.String())
			}
		})
	}
}

// The function assembles the catalog for any message of its queue. A failure does not delay the
// messages behind it, unless the time ran out.
func TestAssemble(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		event  []byte
		fails  error
		result string
		want   string
	}{
		"done":              {t.Context(), sqsEvent(t, job(t)), nil, `"result":"ok"`, ""},
		"direct invocation": {t.Context(), nil, nil, `"trigger":"invoke"`, ""},
		"poisoned":          {t.Context(), sqsEvent(t, "x"), nil, `"result":"ok"`, ""},
		"fails": {t.Context(), sqsEvent(t, job(t)), catalog.ErrRequired,
			`"result":"failed"`, ""},
		"direct invocation fails": {t.Context(), []byte(`{}`), catalog.ErrRequired, "",
			"required server"},
		"out of time": {ended, sqsEvent(t, job(t)), context.DeadlineExceeded, "",
			"ran out of time"},
		"event from S3": {t.Context(), []byte(`{"Records":[{"eventSource":"aws:s3"}]}`), nil, "",
			"messages of its queue"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			h := assembleHandler{log: lineLog(&log), assemble: func(context.Context) (catalog.Report, error) { return catalog.Report{}, c.fails }}
			out, err := h.Invoke(c.ctx, c.event)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || !strings.Contains(string(out), c.result) {
				t.Errorf("Invoke = %s, %v; want %s, %q", out, err, c.result, c.want)
			}
			lambdatest.Lines(t, log.String())
		})
	}
}

// parseRecords accepts any bytes: it returns messages, no messages, or an error.
func FuzzParseRecords(f *testing.F) {
	f.Add([]byte(`{"Records":[{"messageId":"m","body":"{}","eventSource":"aws:sqs"}]}`))
	f.Add([]byte(`{"Records":7}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, payload []byte) {
		records, err := parseRecords(payload)
		for _, r := range records {
			if err != nil || r.Source != "aws:sqs" {
				t.Errorf("%q: %+v, %v", payload, r, err)
			}
		}
	})
}
