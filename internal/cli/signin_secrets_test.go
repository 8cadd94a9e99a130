package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An echo is an MCP server that repeats every Authorization header that it has received.
type echo struct {
	mu   sync.Mutex
	seen []string
}

// front answers calls of tools. The name of the tool selects the answer.
func (e *echo) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.mu.Lock()
		if got := r.Header.Get("Authorization"); !slices.Contains(e.seen, got) {
			e.seen = append(e.seen, got)
		}
		seen := strings.Join(e.seen, ", ")
		e.mu.Unlock()
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
			next.ServeHTTP(w, r)
			return
		}
		inside, _ := json.Marshal(map[string]string{"authorization": seen})
		text, _ := json.Marshal(seen + " " + string(inside))
		h := w.Header()
		h.Set("Content-Type", "application/json")
		switch m.Params.Name {
		case "in_error":
			fmt.Fprintf(w,
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s,"data":{"a":%s}}}`,
				m.ID, text, text)
		case "in_refusal":
			h.Set("WWW-Authenticate",
				`Bearer error="insufficient_scope", scope="write", error_description="`+seen+`"`)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, seen)
		case "in_failure":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, seen)
		case "in_nonsense":
			_, _ = io.WriteString(w, "{"+seen)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",`+
				`"content":[{"type":"text","text":%s}],"structuredContent":{"seen":%s},"isError":%t}}`,
				m.ID, text, text, m.Params.Name == "in_tool_error")
		}
	})
}

// A server repeats the tokens that it receives in results, errors and refusals, even a token from
// before a refresh. The fixtures find no token in an answer, log, audit line or file of the
// gateway.
func TestTokensStaySecret(t *testing.T) {
	e, issuer := new(echo), issuertest.New(t, issuertest.Habits{})
	o := upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true}
	o.Front = func(next http.Handler) http.Handler { return issuer.Front("read")(e.front(next)) }
	ways := []string{
		"in_text", "in_tool_error", "in_error", "in_refusal", "in_failure", "in_nonsense",
	}
	var tools []json.RawMessage
	for _, way := range ways {
		tools = append(tools, upstreamtest.Tool(way, "Repeat.", `{"readOnlyHint":true}`))
	}
	all := servers(upstreamtest.Fleet(t, map[string][]json.RawMessage{"files": tools}, o))
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, all.config(each(""), ""))
	s := newTerminal(t, map[string]string{dir: "gate", osUser(): "ada"})
	s.browse = browseTo(t)
	s.must(1, "sync", "--dir", dir)
	s.must(0, "servers", "login", "files", "--dir", dir)

	p := start(t, dir)
	marks := 0
	for range 3 { // each round has another token
		for _, way := range ways {
			got := p.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
				`"name":"call_tool_read","arguments":{"name":"files:`+way+`","args":{}}}}`)
			marks += strings.Count(got.Body, "[secret]")
		}
		issuer.EndAccess()
	}
	require.OK(t, p.stop())
	if len(e.seen) < 3 {
		t.Errorf("the server saw %d tokens", len(e.seen))
	}
	if marks < 3*3 {
		t.Errorf("only %d tokens were removed from answers", marks)
	}
	s.must(0, "servers", "files", "--dir", dir)
	s.must(1, "doctor", "--dir", dir)
	if text := s.text.String(); !strings.Contains(text, "server_insufficient_scope") ||
		!strings.Contains(text, "has: write.") {
		t.Errorf("the refused call is not reported:\n%s", text)
	}
	s.must(0, "audit", "--dir", dir)
}
