package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

func TestAListSaysHowLongItMayBeKept(t *testing.T) {
	for mode, want := range map[string]string{"search": `"ttlMs":300000`, "direct": `"ttlMs":30000`} {
		y := newYard(t)
		y.serves("a", def("read", "Read.", ""))
		y.configure(map[string]string{"a": `"approval":"off"`}, `"gateway":{"mode":"`+mode+`"}`)
		y.sync()
		list, err := y.open().ListTools(t.Context(), "")
		if err != nil || strings.Count(string(list), "ttlMs") != 1 || !strings.Contains(string(list), want) {
			t.Errorf("%s: %s, %v; want %s", mode, list, err, want)
		}
	}
}

func TestOnlyDirectModeListsOutputSchemas(t *testing.T) {
	for mode, want := range map[string]bool{"search": false, "direct": true} {
		y := newYard(t)
		y.serves("a", def("typed", "Typed.", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`), def("plain", "Plain.", ""))
		y.configure(map[string]string{"a": `"approval":"off"`}, `"gateway":{"mode":"`+mode+`"}`)
		y.sync()
		s := y.open()
		for name, declared := range map[string]bool{"a__typed": want, "a__plain": false, "a__none": false, "call_tool_read": false} {
			if got := s.DeclaresOutput(name); got != declared {
				t.Errorf("%s mode: DeclaresOutput(%s) = %v", mode, name, got)
			}
		}
	}
}

// Whoever goes away in the middle of a call has not found a fault of the gateway's or the server's.
func TestACallerWhoGoesAwayLeavesNoWarning(t *testing.T) {
	const call = `{"name":"call_tool_read","arguments":{"name":"docs:read_document"}}`
	for name, prepare := range map[string]func(y *yard, leave func()){
		"while the server works": func(y *yard, leave func()) {
			y.servers["docs"].answer = func(sent) (json.RawMessage, error) {
				leave()
				return nil, &upstream.CallError{Outcome: upstream.Outcome{ServerID: "docs", Reason: upstream.ReasonAborted}}
			}
		},
		"while the record is read": func(y *yard, leave func()) {
			y.approvals.OnGet = func(ctx context.Context, _ tool.ID) error { leave(); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := zoo(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			prepare(y, cancel)
			y.log.Reset()
			_, err := y.open().CallTool(ctx, json.RawMessage(call))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("CallTool = %v, want canceled", err)
			}
			if y.log.Len() > 0 {
				t.Errorf("the log has %s", y.log)
			}
		})
	}
}
