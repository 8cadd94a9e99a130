package upstream

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const noteJSON = `{"type":"text","text":"Note: the tool asks for input, which this client cannot give."}`

func TestServerRequests(t *testing.T) {
	const echo = `{"content":[{"type":"text","text":%s}],"isError":true}`
	for _, tt := range []struct {
		name, method, result string
		sessions             bool
		answer               string // in the server's answer from its client
		want                 string // the end of the result
	}{
		{"ping", "ping", echo, true, `\"result\":{}`, `],"isError":true}`},
		{"ping, no session", "ping", echo, false, `\"result\":{}`, `],"isError":true}`},
		{"elicitation", "elicitation/create", echo, true, `\"code\":-32601`, noteJSON + `],"isError":true}`},
		{"roots", "roots/list", echo, true, `\"code\":-32601`, noteJSON + `],"isError":true}`},
		{"sampling", "sampling/createMessage", echo, false, `\"code\":-32601`, noteJSON + `],"isError":true}`},
		{"unknown", "tasks/strange", echo, true, `\"code\":-32601`, noteJSON + `],"isError":true}`},
		{"the tool succeeds without an answer", "elicitation/create", `{"content":[{"type":"text","text":%s}]}`, true, `\"code\":-32601`, `}"}]}`},
		{"no content", "elicitation/create", `{"structuredContent":{"told":%s},"isError":true}`, true, `\"code\":-32601`, `"content":[` + noteJSON + `]}`},
		{"empty content", "roots/list", `{"x":%s,"isError":true,"content":[ ]}`, true, `\"code\":-32601`, `"content":[ ` + noteJSON + `]}`},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: tt.sessions})
			f.servers[0].FailOn("tools/call", 1, upstreamtest.Ask(tt.method, tt.result))
			start := time.Now()
			got := f.works()
			if !strings.Contains(got, tt.answer) || !strings.HasSuffix(got, tt.want) {
				t.Errorf("Call = %s; want the answer %s and the end %s", got, tt.answer, tt.want)
			}
			if !json.Valid([]byte(got)) || strings.Count(got, `"isError":true`) > 1 {
				t.Errorf("result %s", got)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("the call took %v", took)
			}
		})
	}
}

func TestAnswerNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy})
		s := f.servers[0]
		s.FailOn("tools/call", 1, upstreamtest.Ask("elicitation/create", "%s"))
		s.FailOn("", -1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
			if r.ContentLength > 0 && strings.Contains(lastBody(s), "-32601") {
				upstreamtest.Hang()(s, w, r, nil)
				return
			}
			serve.ServeHTTP(w, r)
		})
		start := time.Now()
		e := f.fails(Call{Name: "x"})
		if want := "No answer after 20 s. " + unknown + " " + outcome.AskedNote; e.Message("s") != want || time.Since(start) != 20*time.Second {
			t.Errorf("Call = %v after %v, want %s", e, time.Since(start), want)
		}
	})
}

func lastBody(s *upstreamtest.Server) string {
	all := s.Requests()
	return string(all[len(all)-1].Body)
}

func TestServerRequestBeforeAnError(t *testing.T) {
	f := failingOn(t, "tools/call", func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n" +
			"data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"no roots\"}}\n\n"))
	}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
	_, err := f.call(Call{Name: "x"})
	if rpc, ok := errors.AsType[*outcome.RPCError](err); !ok || rpc.Message != "no roots. "+outcome.AskedNote {
		t.Errorf("Call = %v", err)
	}
}
