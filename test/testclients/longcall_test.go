package testclients

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

// A pace contains the steps of a long call, their interval, and the step after which the client
// leaves.
type pace struct {
	steps, leave int
	every        time.Duration
}

// thePace returns 90 steps of a second in the full lane, a few steps in the small lane, and short
// steps otherwise.
func thePace() pace {
	switch lanes {
	case "full":
		return pace{90, 30, time.Second}
	case "small":
		return pace{12, 4, time.Second}
	}
	return pace{5, 2, 200 * time.Millisecond}
}

func (p pace) arguments() map[string]any {
	return map[string]any{"steps": p.steps, "every": p.every.Seconds()}
}

// endless is the number of steps of a call that ends only if it is cancelled.
const endless = 1 << 30

// longCalls returns a config with two servers for long calls, one of each protocol.
func longCalls(u *upstream) string {
	return fmt.Sprintf(`{"mcpServers": {
		"modern": {"url": %q, "approval": "off", "timeout": "10m"},
		"handshake": {"url": %[1]q, "approval": "off", "timeout": "10m", "protocol": "2025-11-25"}}, "gateway": {"mode": "direct"}}`, u.URL)
}

// eachEra runs a test for clients and servers of both protocols.
func eachEra(t *testing.T, url string, f func(t *testing.T, w *wire, server string)) {
	t.Helper()
	for _, modern := range []bool{true, false} {
		for _, server := range []string{"modern", "handshake"} {
			t.Run(fmt.Sprintf("modern client is %t, server %s", modern, server), func(t *testing.T) {
				t.Parallel()
				f(t, newWire(t, url, "", modern, `{}`), server)
			})
		}
	}
}

// A long call reports progress at each step, and ends when its client leaves.
func TestLongCall(t *testing.T) {
	u, p := newUpstream(t), thePace()
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, longCalls(u))
	gate := programtest.Start(t, folder)
	gate.UntilLoaded()
	t.Run("to its end", func(t *testing.T) {
		eachEra(t, gate.URL+"/mcp", func(t *testing.T, w *wire, server string) { w.runsLong(server+"__count", p) })
	})
	drain(u.ended)
	for _, modern := range []bool{true, false} {
		for _, server := range []string{"modern", "handshake"} {
			t.Run(fmt.Sprintf("its client leaves, modern is %t, server %s", modern, server), func(t *testing.T) {
				w := newWire(t, gate.URL+"/mcp", "", modern, `{}`)
				w.leaves(server+"__count", pace{endless, p.leave, p.every})
				select {
				case cancelled := <-u.ended:
					if !cancelled {
						t.Error("the call was not cancelled")
					}
				case <-time.After(local.Patience):
					t.Error("the call is still running after its client left")
				}
			})
		}
	}
}

// A long call reports progress through streaming Lambda functions. Lambda does not tell a
// function when its client has left, so this test has no such case.
func TestLongCallLambda(t *testing.T) {
	u := newUpstream(t)
	stack := lambdatest.NewStack(t, emulator.Start(t), lambdatest.Build(t, repo.Path(""), "mcp", "sync"), map[string]string{"PORTCULLIS_AUTH": "none"})
	stack.Configure(longCalls(u))
	stack.Sync(t)
	front := frontOf(t, stack, "url")
	eachEra(t, front.URL+"/mcp", func(t *testing.T, w *wire, server string) { w.runsLong(server+"__count", thePace()) })
}

// runsLong makes a call and checks that a progress event arrives for each step.
func (w *wire) runsLong(tool string, p pace) {
	w.t.Helper()
	want := 1.0
	var end message
	for m := range w.call(w.t.Context(), tool, p.arguments()) {
		end = m
		if m.Method != "notifications/progress" {
			continue
		}
		if m.Params.Progress != want {
			w.t.Errorf("progress %v, want %v", m.Params.Progress, want)
		}
		if token := fmt.Sprintf("%q", fmt.Sprintf("token-%d", w.sent)); string(m.Params.ProgressToken) != token {
			w.t.Errorf("progress of %s, want of %s", m.Params.ProgressToken, token)
		}
		want++
	}
	if int(want-1) != p.steps || end.Error != nil || !strings.Contains(end.text(), fmt.Sprintf("counted to %d", p.steps)) {
		w.t.Errorf("%v steps of %d, and then: %s", want-1, p.steps, end.text())
	}
}

// leaves makes a call and leaves in the middle of the call.
func (w *wire) leaves(tool string, p pace) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	defer leave()
	for m := range w.call(ctx, tool, p.arguments()) {
		if m.Params.Progress == float64(p.leave) {
			return
		}
	}
	w.t.Fatal("the call ended before its client left")
}

func drain(ended chan bool) {
	for len(ended) > 0 {
		<-ended
	}
}
