package mcphttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// refusing returns a handler that accepts no credentials.
func refusing(t testing.TB) http.Handler {
	t.Helper()
	h := newAuthHandler(t, &backend{}, denies(&identity.Error{Kind: identity.Invalid}), nil)
	return h
}

// A counted is a body that counts the bytes that were read.
type counted struct {
	io.Reader
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *counted) Close() error { return nil }

// shortKeys returns a tool call of about size bytes, with as many names as fit.
func shortKeys(size int) string {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"":0`)
	for i := 0; b.Len() < size-30; i++ {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	return b.String() + `}},"id":7}`
}

func TestRefusedBodyUnread(t *testing.T) {
	body := shortKeys(4 << 20)
	for name, tt := range map[string]struct {
		change func(*http.Request)
		h      http.Handler
		most   int64
	}{
		"bad credentials":        {func(*http.Request) {}, refusing(t), 64 << 10},
		"another origin":         {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, newHandler(t, &backend{}, nil), 64 << 10},
		"waits for 100 Continue": {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, refusing(t), 0},
		"content type":           {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, newHandler(t, &backend{}, nil), 0},
		"path":                   {func(r *http.Request) { r.URL.Path = "/other" }, newHandler(t, &backend{}, nil), 0},
		"declared as too long":   {func(r *http.Request) { r.ContentLength = 4<<20 + 1 }, newHandler(t, &backend{}, nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(t, body)
			c := &counted{Reader: strings.NewReader(body)}
			r.Body = c
			tt.change(r)
			got := send(tt.h, r)
			if got.status < 400 || got.header.Get("Connection") != "close" {
				t.Errorf("status %d, Connection %q, want an error status and close", got.status, got.header.Get("Connection"))
			}
			if n := c.read.Load(); n > tt.most {
				t.Errorf("%d bytes were read, want at most %d", n, tt.most)
			}
		})
	}
	if got := send(newHandler(t, &backend{}, nil), post(t, `{}`)); got.header.Get("Connection") != "" {
		t.Error("a refusal after the body closes the connection")
	}
}

func TestRefusalID(t *testing.T) {
	h := refusing(t)
	long := strings.Repeat("x", 60<<10)
	for _, tt := range []struct{ body, id string }{
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, `7`},
		{`{"jsonrpc":"2.0","method":"ping", "id" : "a\"b\u0041" }`, `"a\"b\u0041"`},
		{`{"id":-12}`, `-12`},
		{"{\"id\":\t5\n}", `5`},
		{`{"params":{"id":1,"a":[{"id":2},"}",["\\"]]},"id":3}`, `3`},
		{`{"params":{"s":"` + long + `"},"id":3}`, `3`},
		{`{"params":{"s":"` + long + long + `"},"id":3}`, ``}, // too far
		{`{"id":"` + strings.Repeat("x", 2000) + `"}`, ``},    // too long to send back
		{`{"id":7.5}`, ``}, {`{"id":1e3}`, ``}, {`{"id":null}`, ``}, {`{"id":{"id":1}}`, ``}, {`{"id":[1]}`, ``}, {`{"id":true,"x":1}`, ``},
		{`{"id":"` + "\xff" + `"}`, ``}, {"{\"id\":\"a\nb\"}", ``}, {`{"id":"\q"}`, ``},
		{`{"id":5`, ``}, {`{"id":"a`, ``}, {`{"id"`, ``}, {`{`, ``}, {``, ``},
		{`[{"id":1}]`, ``}, {`"id"`, ``}, {`7`, ``}, {`nonsense`, ``}, {`{"x":"id","y":1}`, ``}, {`{}{"id":1}`, ``}, {`}{"id":1}`, ``},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
	} {
		got := send(h, post(t, tt.body))
		got.wantError(t, 401, 401, tt.id)
		if t.Failed() {
			t.Fatalf("of %.80q", tt.body)
		}
	}
}

func TestRefusalSlowSender(t *testing.T) {
	for _, tt := range []struct {
		body, id string
		after    time.Duration
	}{{`{"jsonrpc":"2.0","id":7,`, `"id":7`, 0}, {`{"jsonrpc":"2.0",`, `"id":null`, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			c, start := serve(t, refusing(t)), time.Now()
			_, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
				"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"+tt.body)
			require.OK(t, err)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.OK(t, err)
			answer, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusUnauthorized ||
				!strings.Contains(string(answer), tt.id) || !res.Close {
				t.Errorf("%s: got %d %s, closes = %v", tt.body, res.StatusCode, answer, res.Close)
			}
			if took := time.Since(start); took != tt.after {
				t.Errorf("body begins with %s: refused after %v, want %v", tt.body, took, tt.after)
			}
			time.Sleep(time.Second) // net/http waits before it closes the connection
		})
	}
}

func TestLongBodiesBounded(t *testing.T) {
	h := newHandler(t, &backend{}, nil)
	const places = 16
	var on []*io.PipeWriter
	done := make(chan reply, places)
	for range places {
		in, out := io.Pipe()
		r := post(t, "")
		r.Body, r.ContentLength = in, 4<<20
		go func() { done <- send(h, r) }()
		if _, err := io.WriteString(out, "{"); err != nil { // the handler reads it
			t.Fatal(err)
		}
		on = append(on, out)
	}
	long := func() reply {
		return send(h, post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"`+strings.Repeat("x", 1<<20)+`"}}}`))
	}
	got := long()
	got.wantError(t, 503, 503, "")
	if got.header.Get("Retry-After") == "" || got.header.Get("Connection") != "close" {
		t.Errorf("headers of the refusal = %v", got.header)
	}
	unknown := post(t, strings.Repeat(" ", 100))
	unknown.ContentLength = -1
	send(h, unknown).wantError(t, 503, 503, "")
	send(h, legacy.request(t, "tools/list", ``)).wantResult(t) // short bodies are still served

	on[0].CloseWithError(errors.New("gone"))
	(<-done).wantError(t, 400, -32700, "")
	long().wantResult(t)
	for _, out := range on[1:] {
		out.CloseWithError(errors.New("gone"))
		<-done
	}
}

func TestTooManyParts(t *testing.T) {
	rows := func(n int, row string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"rows":[` +
			strings.TrimSuffix(strings.Repeat(row+",", n), ",") + `]}}}`
	}
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"a table of 10,000 rows", rows(9999, `{"a":1,"b":2,"c":3,"d":"x,:\"","e":5,"f":6,"g":7,"h":8,"i":9,"j":10}`), true},
		{"a table of 10,001 rows", rows(10_001, `{"a":1,"b":2,"c":3,"d":"x,:\"","e":5,"f":6,"g":7,"h":8,"i":9,"j":10}`), false},
		{"many numbers", rows(400_000, `1.234567`), true},
		{"a million small ones", rows(1_000_002, `12`), false},
		{"colons and commas in a text", rows(1, `"`+strings.Repeat(`:,\"\\`, 500_000)+`"`), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &backend{call: answers(`{"content":[]}`)}
			got := send(newHandler(t, b, nil), post(t, tt.body))
			if tt.ok {
				got.wantResult(t)
				return
			}
			got.wantError(t, 400, -32600, "7")
			if m := got.rpc(t).Error.Message; !strings.Contains(m, "100000 members") || b.touched() {
				t.Errorf("message %q, backend called = %v", m, b.touched())
			}
		})
	}
}

func TestLongBodiesMemory(t *testing.T) {
	held := func() uint64 {
		s := []rtmetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		rtmetrics.Read(s)
		return s[0].Value.Uint64()
	}
	debug.FreeOSMemory()
	before := held()
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, &backend{}, nil)
		for range 15 {
			r := post(t, "")
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"jsonrpc"`)), 4<<20
			send(h, r).wantError(t, 400, -32700, "")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	if after := held(); after > before+4<<20 {
		t.Errorf("%d MB in use after a minute, %d MB before", after>>20, before>>20)
	}
}
