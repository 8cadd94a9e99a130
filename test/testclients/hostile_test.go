package testclients

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// maxMegabytes is the limit of the gateway's memory while it handles one large answer at a time.
const maxMegabytes = 150

// If a server sends too much, or nothing, the call ends with the reason. The gateway continues, and
// releases all resources of the call.
func TestTooMuch(t *testing.T) {
	u := newUpstream(t)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, fmt.Sprintf(`{"mcpServers": {
		"modern": {"url": %q, "approval": "off"},
		"handshake": {"url": %[1]q, "approval": "off", "protocol": "2025-11-25"},
		"mortal": {"url": %q, "approval": "off", "protocol": "2025-11-25"},
		"child": {"command": %q, "args": [%q], "approval": "off", "timeout": "2m"}}, "gateway": {"mode": "direct"}}`,
		u.URL, Lanes(t), findPython(t), filepath.Join(dir(), "server.py")))
	gate := programtest.Start(t, folder, "--allow-commands")
	gate.UntilLoaded()
	tryAll := func(t *testing.T, big int) {
		t.Helper()
		for _, modern := range []bool{true, false} {
			server := map[bool]string{true: "modern", false: "handshake"}[modern]
			w := newWire(t, gate.URL+"/mcp", "", modern, `{"elicitation":{}}`)
			t.Run(fmt.Sprintf("%s, %d", server, big), func(t *testing.T) { w.tooMuch(t, server, big) })
		}
		w := newWire(t, gate.URL+"/mcp", "", true, `{}`)
		if big > 1 {
			w.wants(t, "child__picture", map[string]any{"size": big * 50 << 10},
				"too large to pass on (over 4 MiB)", `"isError":true`)
		}
		const sent = "ended before its answer was complete. The call was sent and may have taken effect; check before calling again."
		w.wants(t, "child__die", map[string]any{}, "The program of MCP server 'child' "+sent, `"isError":true`)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
	newWire(t, gate.URL+"/mcp", "", true, `{}`).wants(t, "mortal__die", map[string]any{},
		"The connection to MCP server 'mortal' broke before its answer was complete. The call was sent and may have taken effect; check before calling again.", `"isError":true`)
	tryAll(t, 1)
	before := local.UsageOf(t, gate.PID())
	tryAll(t, 100)
	var after local.Usage
	local.Until(t, fmt.Sprintf("the gateway uses no more resources than before: %+v",
		before), func() bool {
		after = local.UsageOf(t, gate.PID())
		return after.Descriptors <= before.Descriptors && after.Children <= before.Children
	})
	if after.Peak > maxMegabytes {
		t.Errorf("the gateway used %.0f MB, want at most %d", after.Peak, maxMegabytes)
	}
	t.Logf("before %+v, after %+v", before, after)
}

// tooMuch makes calls with answers of the given hundredths of the largest size in the test.
func (w *wire) tooMuch(t *testing.T, server string, hundredths int) {
	t.Helper()
	size := hundredths * 50 << 10 // of an image: 5 MB
	if end, _ := last(w.call(t.Context(), server+"__picture", map[string]any{"bytes": size})); size < 3<<20 {
		if len(end.Result) < size*4/3 || strings.Contains(end.text(), `"isError":true`) {
			t.Errorf("an image of %d bytes: %.300s", size, end.text())
		}
	} else if !strings.Contains(end.text(), "too large to pass on (over 4 MiB)") {
		t.Errorf("an image of %d bytes: %.300s", size, end.text())
	}
	steps := hundredths * 15
	end, before := last(w.call(t.Context(), server+"__count", map[string]any{"steps": steps, "every": 0}))
	if !strings.Contains(end.text(), fmt.Sprintf("counted to %d", steps)) || before == 0 {
		t.Errorf("%d events, and then %.300s", before, end.text())
	}
	of := *w // both servers have this resource
	of.url += "/x/" + server
	end, _ = last(of.ask(t.Context(), "resources/read", map[string]any{"uri": "test://large"}))
	if end.Error == nil || !strings.Contains(end.text(), "too large to pass on (over 4 MiB)") {
		t.Errorf("a resource of 50 MB: %.300s", end.text())
	}
}

// wants makes a call and checks that the answer contains the texts.
func (w *wire) wants(t *testing.T, tool string, arguments map[string]any, holds ...string) {
	t.Helper()
	end, _ := last(w.call(t.Context(), tool, arguments))
	for _, text := range holds {
		if !strings.Contains(end.text(), text) {
			t.Errorf("%s answers %.600s, want %q", tool, end.text(), text)
		}
	}
}

// If a client declares elicitation and then does not answer, its call reports that nobody answered.
func TestUnanswered(t *testing.T) {
	if lanes != "full" {
		t.Skip("it takes five minutes: make lanes runs it")
	}
	u := newUpstream(t)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, fmt.Sprintf(
		`{"mcpServers": {"s": {"url": %q, "approval": "off", "protocol": "2025-11-25"}}, "gateway": {"mode": "direct"}}`, u.URL))
	gate := programtest.Start(t, folder)
	w := newWire(t, gate.URL+"/mcp", "", false, `{"elicitation":{}}`)
	asked := false
	var end message
	for m := range w.call(t.Context(), "s__sign", map[string]any{}) {
		asked = asked || m.Method == "elicitation/create"
		end = m
	}
	if !asked || !strings.Contains(end.text(), "nobody answered within 5 minutes") {
		t.Errorf("the client was asked: %t; answer %s", asked, end.text())
	}
}
