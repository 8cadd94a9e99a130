package upstream

import (
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
