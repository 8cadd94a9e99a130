package mcphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/mcphttp/testclients"
)

func TestTypeScriptClientsWork(t *testing.T) {
	srv := httptest.NewServer(newHandler(t, &backend{call: known, instructions: "Look behind the gate."}, &mcphttp.Options{Name: "gate", Version: "1.2.3"}))
	defer srv.Close()
	for mode, version := range map[string]string{testclients.SDK: "2025-11-25", testclients.Legacy: "2025-11-25", testclients.Auto: "2026-07-28"} {
		t.Run(mode, func(t *testing.T) {
			got := testclients.TypeScript(t, mode, srv.URL+"/mcp/x/files", map[string]string{"X-MCP-Readonly": "true"},
				testclients.Step{Method: "tools/list"},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":{"n":1}}`)},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"fail"}`)},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"nöne"}`)},
				testclients.Step{Method: "tools/list"},
			)
			if got.Version != version || got.Server.Name != "gate" || got.Server.Version != "1.2.3" || got.Instructions != "Look behind the gate." || string(got.Capabilities) != `{"tools":{}}` {
				t.Errorf("connected to %+v", got)
			}
			var list struct{ Tools []struct{ Name string } }
			for _, i := range []int{0, 4} {
				if err := json.Unmarshal(got.Answers[i].Result, &list); err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "echo" {
					t.Errorf("answer %d is %s", i, got.Answers[i].Result)
				}
			}
			if r := string(got.Answers[1].Result); !strings.Contains(r, `"structuredContent":{"n":1}`) || !strings.Contains(r, `"text":"{\"n\":1}"`) {
				t.Errorf("the call answers %s", r)
			}
			if r := string(got.Answers[2].Result); !strings.Contains(r, `"isError":true`) || !strings.Contains(r, "disabled and not callable") {
				t.Errorf("the blocked call answers %s", r)
			}
			if e := got.Answers[3].Error; e == nil || e.Code != -32602.0 || !strings.Contains(e.Message, `unknown tool "nöne"`) {
				t.Errorf("the unknown tool answers %+v", got.Answers[3])
			}
		})
	}
}

func TestInspectorWorks(t *testing.T) {
	srv := httptest.NewServer(newHandler(t, &backend{call: known}, nil))
	defer srv.Close()
	for _, era := range []string{"legacy", "auto", "modern"} {
		t.Run(era, func(t *testing.T) {
			out, err := testclients.Inspector(t, srv.URL+"/mcp", era, "--method", "tools/list")
			if err != nil {
				t.Fatal(err)
			}
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(out, &list); err != nil || len(list.Tools) != 2 {
				t.Errorf("tools/list prints %s, %v", out, err)
			}
			out, err = testclients.Inspector(t, srv.URL+"/mcp", era, "--method", "tools/call", "--tool-name", "echo", "--tool-args-json", `{"n":1}`)
			if err != nil {
				t.Fatal(err)
			}
			var call struct{ StructuredContent json.RawMessage }
			if err := json.Unmarshal(out, &call); err != nil {
				t.Errorf("tools/call prints %s, %v", out, err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, call.StructuredContent); err != nil || compact.String() != `{"n":1}` {
				t.Errorf("tools/call prints %s, %v", out, err)
			}
		})
	}
}

// The transport is held to the suite with nothing behind it but the everything-server.
func TestConformance(t *testing.T) {
	var l net.ListenConfig
	listener, err := l.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	srv := &httptest.Server{Listener: listener, Config: &http.Server{Handler: newHandler(t, forward{url: testclients.Everything(t)}, &mcphttp.Options{BaseURL: base})}}
	srv.Start()
	defer srv.Close()
	for _, set := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(set, func(t *testing.T) { testclients.Conformance(t, base+"/mcp", set) })
	}
}

// A forward hands each request to a server of the stateless protocol.
type forward struct {
	url  string
	meta json.RawMessage
}

func (f forward) Open(_ context.Context, c gateway.Caller) (mcphttp.Session, error) {
	f.meta = c.Meta
	return f, nil
}

func (forward) Instructions() string { return "" }

func (f forward) ListTools(ctx context.Context, cursor string) (json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	if cursor != "" {
		params["cursor"], _ = json.Marshal(cursor)
	}
	return f.ask(ctx, "tools/list", "", params)
}

func (f forward) CallTool(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	var name string
	if err := json.Unmarshal(params["name"], &name); err != nil {
		return nil, err
	}
	return f.ask(ctx, "tools/call", name, params)
}

func (f forward) ask(ctx context.Context, method, name string, params map[string]json.RawMessage) (json.RawMessage, error) {
	meta := map[string]json.RawMessage{"io.modelcontextprotocol/clientCapabilities": json.RawMessage(`{}`)}
	if f.meta != nil {
		if err := json.Unmarshal(f.meta, &meta); err != nil {
			return nil, err
		}
	}
	meta["io.modelcontextprotocol/protocolVersion"] = json.RawMessage(`"2026-07-28"`)
	body, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	params["_meta"] = body
	if body, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name},
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return last(answer)
}

// last returns the answer out of a JSON body or of the events of an SSE one.
func last(body []byte) (json.RawMessage, error) {
	for line := range bytes.Lines(body) {
		var a rpc
		if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &a) != nil || a.ID == nil {
			continue
		}
		if a.Error != nil {
			return nil, &gateway.Error{Code: a.Error.Code, Message: a.Error.Message, Data: a.Error.Data}
		}
		return a.Result, nil
	}
	return nil, fmt.Errorf("no answer in %q", body)
}

func TestForwardReadsBothKindsOfBody(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`,
		"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1}}\n\n",
	} {
		got, err := last([]byte(body))
		if d := cmp.Diff(`{"a":1}`, string(got)); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
	_, err := last([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m"}}`))
	if e, ok := errors.AsType[*gateway.Error](err); !ok || e.Code != 5 {
		t.Errorf("got %v", err)
	}
}
