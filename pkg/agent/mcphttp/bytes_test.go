package mcphttp_test

import (
	"net/http"
	"strings"
	"testing"
)

// odd contains values that a decoder would change: a number over 2^53, a float's digits, the order
// of names, escapes, white space, unknown fields and kinds.
const odd = `{"z":9007199254740993,"a":1.10,"u":"\u00e9\/<&>","big":123456789012345678901234567890,"e":1E400,` + "\n\t" + `"nested" : { "b":[ ],"a":{} },"":null}`

func TestArgumentsKeepBytes(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		b := &backend{}
		const rest = `"unknown":[1,2],"inputResponses":{"x":{"kind":"new"}},"requestState":"s"`
		send(newHandler(t, b, nil), e.request(t, "tools/call", `"arguments":`+odd+`,"name":"echo",`+rest)).wantResult(t)
		want := `{"name":"echo","arguments":` + odd + `,` + rest
		if e.isModern() {
			want += `,"_meta":{` + e.meta + `}`
		}
		want += "}"
		same(t, "params", []string{want}, b.params)
	})
}

func TestResultsKeepBytes(t *testing.T) {
	result := `{"content":[{"type":"hologram","data":` + odd + `}],"structuredContent":` + odd + `,"extra":` + odd + `}`
	inEachProtocol(t, func(t *testing.T, e protocol) {
		got := send(newHandler(t, &backend{call: answers(result)}, nil), e.request(t, "tools/call", `"name":"echo"`))
		// in the stateless protocol, the gateway adds members
		if !strings.HasPrefix(got.wantResult(t), strings.TrimSuffix(result, "}")) {
			t.Errorf("result = %s", got.body)
		}
	})
}

func TestDefinitionsKeepBytes(t *testing.T) {
	definition := `{"name":"t","inputSchema":{"type":"object","x-new":` + odd + `},"annotations":{"futureHint":true},"icons":[ ]}`
	inEachProtocol(t, func(t *testing.T, e protocol) {
		h := newHandler(t, &backend{tools: `{"tools":[` + definition + `],"nextCursor":"c\u0041"}`}, nil)
		got := send(h, e.request(t, "tools/list", ``))
		got.wantResult(t)
		if want := `"tools":[` + definition + `],"nextCursor":"c\u0041"`; !strings.Contains(got.body, want) {
			t.Errorf("%s\nis not in\n%s", want, got.body)
		}
	})
}

func TestIDsKeepBytes(t *testing.T) {
	for _, id := range []string{`0`, `1`, `-5`, `9007199254740993`, `123456789012345678901234567890`, `""`, `"a"`, `"1"`, `"\u0041\n"`, `"é"`} {
		for _, method := range []string{"tools/list", "ping", "initialize", "prompts/list"} {
			got := send(
				newHandler(t, &backend{}, nil),
				post(t, `{"method":"`+method+`","params":{},"id":`+id+`,"jsonrpc":"2.0"}`),
			)
			if want := `{"jsonrpc":"2.0","id":` + id + `,`; !strings.HasPrefix(got.body, want) {
				t.Errorf("%s with id %s: %s", method, id, got.body)
			}
		}
	}
}

func TestCallerHeaders(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		b := &backend{}
		r := e.request(t, "tools/list", `"cursor":"page \u0032"`)
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Cookie", "c=1")
		r.Header.Set("X-Other", "no")
		r.Header["X-MCP-Toolsets"] = []string{"a, b", "c"}
		r.Header["x-mcp-readonly"] = []string{"true"}
		r.Header.Set("Prefer", "handling=lenient")
		r.Header.Set("Mcp-Param-Region", "eu")
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		send(newHandler(t, b, nil), r).wantResult(t)

		c := b.callers[0]
		want := http.Header{"X-Mcp-Toolsets": {"a, b", "c"}, "X-Mcp-Readonly": {"true"}, "Prefer": {"handling=lenient"}, "Mcp-Param-Region": {"eu"}}
		same(t, "headers", want, c.Header)
		if c.Traceparent != r.Header.Get("Traceparent") || c.Agent.ID != "anonymous" {
			t.Errorf("caller is %+v", c)
		}
		same(t, "cursor", []string{"page 2"}, b.cursors)
	})
}

func TestStructuredContentOfFailures(t *testing.T) {
	const failed = `{"content":[{"type":"text","text":"no"}],"structuredContent":{"a":1},"isError":true,"x":1}`
	for _, outputs := range []bool{false, true} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			if outputs && !e.isModern() {
				t.Skip("such a client would throw")
			}
			h := newHandler(t, &backend{call: answers(failed), outputs: outputs}, nil)
			if got := send(h, e.request(t, "tools/call", `"name":"t"`)).wantResult(t); !strings.HasPrefix(got, strings.TrimSuffix(failed, "}")) {
				t.Errorf("result = %s", got)
			}
		})
	}
}

// A client of the handshake protocol validates structuredContent with the tool's output schema,
// even if the result is a failure. Then the client throws an error.
func TestStructuredContentRemoved(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{`{"content":[{"type":"text","text":"no"}],"structuredContent":{"a":1},"isError":true,"x":1}`,
			`{"content":[{"type":"text","text":"no"}],"isError":true,"x":1}`},
		{`{"structuredContent":{"a":"b"},"isError":true}`,
			`{"isError":true,"content":[{"type":"text","text":"{\"a\":\"b\"}"}]}`},
		{`{"content":[ ],"structuredContent":[1],"isError":true}`,
			`{"isError":true,"content":[{"type":"text","text":"[1]"}]}`},
		{`{"isError":false,"structuredContent":{"a":1},"isError":true,"content":[{"type":"text","text":"no"}]}`,
			`{"isError":false,"isError":true,"content":[{"type":"text","text":"no"}]}`},
		{`{"content":[],"structuredContent":{"a":1},"isError":false}`,
			`{"content":[],"structuredContent":{"a":1},"isError":false}`},
	} {
		h := newHandler(t, &backend{call: answers(tt.given), outputs: true}, nil)
		same(
			t, tt.given, tt.want,
			send(h, legacy.request(t, "tools/call", `"name":"t"`)).wantResult(t),
		)
	}
}
