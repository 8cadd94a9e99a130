package mcphttp_test

import (
	"maps"
	"strings"
	"testing"
)

// The handler answers every invalid message with a JSON-RPC error, and the message does not reach
// the backend.
func TestBadMessages(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}`
	for name, tt := range map[string]struct {
		body string
		code int
		id   string
	}{
		"empty":                {``, -32700, ""},
		"cut off":              {call[:len(call)-1], -32700, ""},
		"two objects":          {call + call, -32700, ""},
		"not JSON":             {`hello`, -32700, ""},
		"BOM":                  {"\uFEFF" + call, -32700, ""},
		"invalid UTF-8":        {strings.Replace(call, "echo", "e\xffo", 1), -32700, ""},
		"lone surrogate":       {strings.Replace(call, "echo", `\ud800`, 1), -32700, ""},
		"a string":             {`"tools/call"`, -32600, ""},
		"null":                 {`null`, -32600, ""},
		"empty batch":          {`[]`, -32600, ""},
		"batch of 1 call":      {`[` + call + `]`, -32600, ""},
		"batch of 2 calls":     {` [` + call + `,` + call + `]`, -32600, ""},
		"empty object":         {`{}`, -32600, ""},
		"no version":           {`{"id":7,"method":"tools/call","params":{"name":"echo"}}`, -32600, "7"},
		"version as a number":  {strings.Replace(call, `"2.0"`, `2.0`, 1), -32600, "7"},
		"version 1":            {strings.Replace(call, `"2.0"`, `"1.0"`, 1), -32600, "7"},
		"null id":              {strings.Replace(call, `7`, `null`, 1), -32600, ""},
		"fraction as id":       {strings.Replace(call, `7`, `7.5`, 1), -32600, ""},
		"true as id":           {strings.Replace(call, `7`, `true`, 1), -32600, ""},
		"object as id":         {strings.Replace(call, `7`, `{}`, 1), -32600, ""},
		"huge id":              {strings.Replace(call, `7`, `"`+strings.Repeat("x", 2000)+`"`, 1), -32600, ""},
		"no id":                {strings.Replace(call, `"id":7,`, ``, 1), -32600, ""},
		"no method":            {`{"jsonrpc":"2.0","id":7}`, -32600, "7"},
		"method as a number":   {strings.Replace(call, `"tools/call"`, `5`, 1), -32600, "7"},
		"empty method":         {strings.Replace(call, `"tools/call"`, `""`, 1), -32600, "7"},
		"params as a list":     {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["echo"]}`, -32602, "7"},
		"params as a string":   {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"echo"}`, -32602, "7"},
		"_meta as a list":      {strings.Replace(call, `"name"`, `"_meta":[],"name"`, 1), -32602, "7"},
		"_meta as null":        {strings.Replace(call, `"name"`, `"_meta":null,"name"`, 1), -32602, "7"},
		"name as a number":     {strings.Replace(call, `"echo"`, `5`, 1), -32602, "7"},
		"name as null":         {strings.Replace(call, `"echo"`, `null`, 1), -32602, "7"},
		"notification with id": {`{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}`, -32600, "7"},

		"two ids":                 {strings.Replace(call, `"id":7`, `"id":7,"id":8`, 1), -32600, ""},
		"two methods":             {strings.Replace(call, `"method"`, `"method":"ping","method"`, 1), -32600, ""},
		"two escaped methods":     {strings.Replace(call, `"method"`, `"\u006dethod":"ping","method"`, 1), -32600, ""},
		"two params":              {strings.Replace(call, `"params"`, `"params":{},"params"`, 1), -32600, ""},
		"two names":               {strings.Replace(call, `"name"`, `"name":"add","name"`, 1), -32600, ""},
		"two argument objects":    {strings.Replace(call, `"name"`, `"arguments":{},"arguments":{},"name"`, 1), -32600, ""},
		"nested duplicate name":   {strings.Replace(call, `"name"`, `"arguments":{"a":[{"name":1,"name":2}]},"name"`, 1), -32600, ""},
		"duplicate key of _meta":  {strings.Replace(call, `"name"`, `"_meta":{"k":1,"k":2},"name"`, 1), -32600, ""},
		"name in another case":    {strings.Replace(call, `"name"`, `"name":"add","Name"`, 1), -32602, "7"},
		"arguments with a long s": {strings.Replace(call, `"name"`, `"argument\u017f":{},"name"`, 1), -32602, "7"},
		"_meta in another case":   {strings.Replace(call, `"name"`, `"_META":{},"name"`, 1), -32602, "7"},
		"all keys in other cases": {`{"JSONRPC":"2.0","ID":7,"Method":"tools/call","Params":{"name":"echo"}}`, -32600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range protocols {
				b := &backend{}
				r := post(t, tt.body)
				maps.Copy(r.Header, e.header)
				send(newHandler(t, b, nil), r).wantError(t, 400, tt.code, tt.id)
				if b.touched() {
					t.Errorf("%s: the message reached the backend", e.name)
				}
			}
		})
	}
}

func TestUndeclaredMethods(t *testing.T) {
	for _, method := range []string{
		"resources/subscribe", "resources/unsubscribe", "logging/setLevel", "roots/list", "sampling/createMessage",
		"tasks/result", "tasks/list",
		"tools/List", "rpc.discover", "no/such", "../tools/list",
	} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{}
			want := 200
			if e.isModern() {
				want = 404
			}
			send(newHandler(t, b, nil), e.request(t, method, ``)).wantError(t, want, -32601, "7")
			if len(b.callers) > 0 {
				t.Errorf("%s opened a session", method)
			}
		})
	}
}

func TestNotifications(t *testing.T) {
	for _, method := range []string{
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/no/such",
	} {
		for _, rest := range []string{``, `,"params":{}`, `,"params":{"requestId":1}`, `,"params":null`} {
			wantAccepted(t, method, `"method":"`+method+`"`+rest)
		}
	}
	wantAccepted(t, "", `"id":"x","result":{"roots":[]}`)
}

// wantAccepted checks that the handler accepts a message that needs no answer, in each protocol.
func wantAccepted(t *testing.T, method, members string) {
	t.Helper()
	inEachProtocol(t, func(t *testing.T, e protocol) {
		r := post(t, `{"jsonrpc":"2.0",`+members+`}`)
		maps.Copy(r.Header, e.header)
		r.Header.Set("Mcp-Method", method)
		if got := send(newHandler(t, &backend{}, nil), r); got.status != 202 || got.body != "" {
			t.Errorf("%s: status %d, %q; want 202 without a body", members, got.status, got.body)
		}
	})
}

func TestDeepNesting(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	inEachProtocol(t, func(t *testing.T, e protocol) {
		b := &backend{call: answers(`{"content":[]}`)}
		h := newHandler(t, b, nil)
		send(h, e.request(t, "tools/call", `"name":"echo","arguments":{"a":`+deep(5000)+`}`)).wantResult(t)
		if len(b.params) != 1 || !strings.Contains(b.params[0], deep(5000)) {
			t.Error("the backend did not get the arguments")
		}
		e.meta += `,"k":` + deep(2000)
		if e.meta[0] == ',' {
			e.meta = e.meta[1:]
		}
		send(h, e.request(t, "tools/call", `"name":"echo"`)).wantError(t, 400, -32600, "7")
		send(h, e.request(t, "tools/call", `"name":"echo","arguments":{"a":`+deep(100_000)+`}`)).wantError(t, 400, -32700, "")
		if len(b.params) != 1 {
			t.Errorf("%d calls reached the backend, want 1", len(b.params))
		}
	})
}
