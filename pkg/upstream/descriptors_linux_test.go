package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// If a call fails because this process can open no more files, the failure is transient. Its text
// names the gateway as the cause, not the server. It opens no circuit breaker, and it ends when a
// descriptor is free.
func TestWithoutDescriptors(t *testing.T) {
	server := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	remote := newClient(t, Options{AllowNets: loopback()})
	remote.dialer.Timeout = 100 * time.Millisecond // the dialer retries until then
	programs, program := withProgram(t, Options{}, stdiotest.Legacy)
	for _, test := range []struct {
		name   string
		client *Client
		target Target
		call   string // tool whose call works if descriptors are free; "": no call works
	}{
		{"an address", remote, Target{ID: "at", URL: server.URL}, "tool_aa"},
		{"a name", remote, Target{ID: "named", URL: "http://files.test:80/mcp"}, ""},
		{"a program", programs, program, "echo"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.client
			c.limits.attempts = 1
			c.http.CloseIdleConnections()
			local.WithoutDescriptors(t, func() {
				if out := c.Load(t.Context(), test.target); out.Status != outcome.Transient || out.Reason != outcome.ReasonDescriptors {
					t.Errorf("Load = %q %s (%s)", out.Status, out.Reason, out.Error)
				}
				for range breakAfter + 1 {
					_, err := c.Call(t.Context(), test.target, Call{Name: test.call})
					failed := callError(t, err)
					if o := failed.Outcome; o.Reason != outcome.ReasonDescriptors || failed.Delivered {
						t.Fatalf("Call = %q %s (%s), delivered %t", o.Status, o.Reason, o.Error, failed.Delivered)
					}
					if text := failed.Message("files"); !strings.HasPrefix(text, "The gateway has too many connections open") || strings.Contains(text, "fixed") {
						t.Errorf("an agent reads %q", text)
					}
				}
			})
			if test.call == "" {
				return
			}
			if _, err := c.Call(t.Context(), test.target, Call{Name: test.call}); err != nil {
				t.Errorf("with descriptors: %v", err)
			}
		})
	}
}
