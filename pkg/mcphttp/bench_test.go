package mcphttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request through the transport and over loopback, in both eras. The list is of 100 tools, as
// in direct mode; the result of the call is of 4 KiB.
func BenchmarkHTTP(b *testing.B) {
	var tools []string
	for i := range 100 {
		tools = append(tools, fmt.Sprintf(`{"name":"server__tool_%d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}`, i, strings.Repeat("word ", 30)))
	}
	back := &backend{
		tools: `{"tools":[` + strings.Join(tools, ",") + `]}`,
		call:  answers(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 4096) + `"}]}`),
	}
	srv := httptest.NewServer(newHandler(b, back, nil))
	defer srv.Close()
	srv.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 16
	for _, e := range []era{legacy, modern} {
		for method, params := range map[string]string{"tools/list": ``, "tools/call": `"name":"server__tool_1","arguments":{"a":"b"}`, "ping": ``} {
			if e.isModern() && method == "ping" {
				continue
			}
			b.Run(strings.ReplaceAll(method, "/", "_")+"/"+e.name, func(b *testing.B) {
				r := e.request(b, method, params)
				body, err := io.ReadAll(r.Body)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					q, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL+"/mcp", bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					q.Header = r.Header
					res, err := srv.Client().Do(q)
					if err != nil {
						b.Fatal(err)
					}
					n, err := io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if err != nil || res.StatusCode != http.StatusOK || n == 0 {
						b.Fatalf("status %d, %d bytes, %v", res.StatusCode, n, err)
					}
				}
				back.params, back.cursors, back.callers = nil, nil, nil
			})
		}
	}
}

// A call without the network, with arguments of 1 KiB and of 1 MiB: what the bytes themselves
// cost.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("arguments_%dKiB", size>>10), func(b *testing.B) {
			back := &backend{call: answers(`{"content":[]}`)}
			h := newHandler(b, back, nil)
			r := modern.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", size)+`"}`)
			body, err := io.ReadAll(r.Body)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(bytes.NewReader(body))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Body.String())
				}
				back.params, back.callers = nil, nil
			}
		})
	}
}
