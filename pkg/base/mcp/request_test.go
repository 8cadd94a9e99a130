package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

// Parse and encoding/json read the same values from each message that Parse accepts.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1.0]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a\u00e9","requestState":"s"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list","params":{"cursor":"c"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"u:{v}"},"context":{}}}`,
		`[]`, ``, `{"id":1,"id":2}`, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"NAME":1}}`, "{\"a\":\"\\ud800\"}", "{} {}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := mcp.Parse(body)
		id := mcp.PeekID(bytes.NewReader(body))
		if err == nil && m.Method != "" && !bytes.Equal(id, m.ID) {
			t.Errorf("id %q, PeekID reads %q", m.ID, id)
		}
		if id != nil && !json.Valid(id) {
			t.Errorf("PeekID reads %q", id)
		}
		if err != nil {
			if err.Status != 400 || err.Message == "" {
				t.Errorf("refused with %+v", err)
			}
			return
		}
		if m.Method == "" {
			checkAnswer(t, body, m)
			return
		}
		envelope := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &envelope); err != nil {
			t.Fatalf("encoding/json cannot read %q: %v", body, err)
		}
		var method string
		if err := json.Unmarshal(envelope["method"], &method); err != nil || method != m.Method {
			t.Errorf("method %q, encoding/json reads %q, %v", m.Method, method, err)
		}
		if !m.Params {
			return
		}
		var params fuzzedParams
		if err := json.Unmarshal(envelope["params"], &params); err != nil || len(params.Meta) != len(m.Meta) {
			t.Errorf("_meta %v, encoding/json reads %q, %v", m.Meta, params.Meta, err)
		}
		for _, member := range m.Meta {
			if !bytes.Equal(member.Value, params.Meta[member.Name]) {
				t.Errorf("_meta %q is %s, encoding/json reads %s", member.Name, member.Value, params.Meta[member.Name])
			}
		}
		params.compare(t, m)
	})
}

// fuzzedParams are params as encoding/json reads them. It accepts names in any letter case.
type fuzzedParams struct {
	Name, URI, Cursor any
	TaskID            any
	Arguments         json.RawMessage
	Ref               *struct{ Type, Name, URI string }
	Meta              map[string]json.RawMessage `json:"_meta"`
}

func (params fuzzedParams) compare(t *testing.T, m mcp.Request) {
	t.Helper()
	switch m.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		if params.Name != nil && params.Name != m.Name {
			t.Errorf("name %q, encoding/json reads %q", m.Name, params.Name)
		}
		none := m.Method == mcp.MethodGetPrompt && string(params.Arguments) == "null"
		if !bytes.Equal(params.Arguments, m.Arguments) && !none {
			t.Errorf("arguments %q, encoding/json reads %q", m.Arguments, params.Arguments)
		}
	case mcp.MethodReadResource:
		if params.URI != nil && params.URI != m.URI {
			t.Errorf("uri %q, encoding/json reads %q", m.URI, params.URI)
		}
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		if params.TaskID != nil && params.TaskID != m.Task {
			t.Errorf("task %q, encoding/json reads %q", m.Task, params.TaskID)
		}
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		if params.Cursor != nil && params.Cursor != m.Cursor {
			t.Errorf("cursor %q, encoding/json reads %q", m.Cursor, params.Cursor)
		}
	case mcp.MethodComplete:
		if params.Ref != nil && (params.Ref.Name != m.Name || params.Ref.URI != m.URI) {
			t.Errorf("ref to %q and %q, encoding/json reads %+v", m.Name, m.URI, *params.Ref)
		}
	default:
		subject, _ := m.Subject()
		if m.Name+m.URI+m.Task+m.Cursor+subject != "" || m.Arguments != nil || m.Ref != nil {
			t.Errorf("%s has members of other methods: %+v", m.Method, m)
		}
	}
}

func TestParseParams(t *testing.T) {
	for _, tt := range []struct {
		method, params string
		want           mcp.Request // without ID, Method and Params; zero: refused
	}{
		{"prompts/get", `{"name":"p","arguments":{"a":"b"},"requestState":"s"}`, mcp.Request{Name: "p", Arguments: json.RawMessage(`{"a":"b"}`)}},
		{"prompts/get", `{"name":"p","arguments":null}`, mcp.Request{Name: "p"}},
		{"prompts/get", `{"name":1}`, mcp.Request{}},
		{"prompts/get", `{"name":"p","arguments":[]}`, mcp.Request{}},
		{"prompts/get", `{"name":"p","Arguments":{}}`, mcp.Request{}},
		{"resources/read", `{"uri":"file:///\u00e9?a=b"}`, mcp.Request{URI: "file:///é?a=b"}},
		{"resources/read", `{"uri":null}`, mcp.Request{}},
		{"resources/read", `{"uri":"a:b","URI":"a:c"}`, mcp.Request{}},
		{"resources/read", `{"uri":"a:b","uri":"a:c"}`, mcp.Request{}},
		{"resources/list", `{"cursor":"c"}`, mcp.Request{Cursor: "c"}},
		{"resources/templates/list", `{"cursor":null}`, mcp.Request{}},
		{"prompts/list", `{"cursor":7}`, mcp.Request{}},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"v"}}`,
			mcp.Request{Name: "p", Ref: json.RawMessage(`{"type":"ref/prompt","name":"p","title":"P"}`)}},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"a:{b}"},"argument":{"name":"a","value":""},"context":{"arguments":{}}}`,
			mcp.Request{URI: "a:{b}", Ref: json.RawMessage(`{"type":"ref/resource","uri":"a:{b}"}`)}},
		{"completion/complete", `{"ref":{"type":"ref/tool","name":"p"}}`, mcp.Request{}},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p","uri":"a:b"}}`, mcp.Request{}},
		{"completion/complete", `{"ref":{"type":"ref/prompt","Name":"p"}}`, mcp.Request{}},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p","NAME":"q"}}`, mcp.Request{}},
		{"completion/complete", `{"ref":"p"}`, mcp.Request{}},
		{"completion/complete", `{"argument":{"name":"a"}}`, mcp.Request{}},
		{"completion/complete", `{"argument":[]}`, mcp.Request{}},
		{"completion/complete", `{"context":[]}`, mcp.Request{}},
		{"tasks/get", `{"taskId":"\u0061"}`, mcp.Request{Task: "a"}},
		{"tasks/update", `{"taskId":"a","inputResponses":{}}`, mcp.Request{Task: "a"}},
		{"tasks/cancel", `{"taskId":7}`, mcp.Request{}},
		{"tasks/cancel", `{"taskId":"a","taskid":"b"}`, mcp.Request{}},
	} {
		r, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + tt.method + `","params":` + tt.params + `}`))
		refused := err != nil
		if refused && err.Status != 400 {
			t.Errorf("%s %s: refused with %+v", tt.method, tt.params, err)
		}
		subject := tt.want.Name + tt.want.URI + tt.want.Task + tt.want.Cursor
		if wanted := subject != "" || strings.Contains(tt.params, `"cursor":null`); refused == wanted {
			t.Errorf("%s %s: %v", tt.method, tt.params, err)
		}
		got := mcp.Request{
			Name: r.Name, URI: r.URI, Task: r.Task, Cursor: r.Cursor, Ref: r.Ref, Arguments: r.Arguments,
		}
		if !refused && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %s: %+v", tt.method, tt.params, got)
		}
	}
}

// Parse keeps the bytes of members that the gateway passes on to a server.
func TestParseRest(t *testing.T) {
	r, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"context":{"n": 1e2},"ref":{"type":"ref/prompt","name":"p"},"argument":{"value":"","name":"a"},"x":[1]}}`))
	if got := string(r.Rest.Bytes()); err != nil || got != `{"context":{"n": 1e2},"argument":{"value":"","name":"a"},"x":[1]}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// checkAnswer compares a client's answer with the reading of encoding/json.
func checkAnswer(t *testing.T, body []byte, m mcp.Request) {
	t.Helper()
	var want, refusal map[string]json.RawMessage // a map distinguishes names by letter case
	if err := json.Unmarshal(body, &want); err != nil || m.Answer == nil || !bytes.Equal(m.ID, want["id"]) {
		t.Errorf("answer %+v to %s, encoding/json reads %s, %v", m.Answer, m.ID, want, err)
		return
	}
	e := m.Answer.Err
	if e == nil {
		if !bytes.Equal(m.Answer.Result, want["result"]) || m.Answer.Result[0] != '{' || want["error"] != nil {
			t.Errorf("result %s, encoding/json reads %s", m.Answer.Result, want)
		}
		return
	}
	var code int
	var message string
	err := errors.Join(json.Unmarshal(want["error"], &refusal), json.Unmarshal(refusal["code"], &code), json.Unmarshal(refusal["message"], &message))
	if err != nil || m.Answer.Result != nil || e.Code != code || e.Message != message || !bytes.Equal(e.Data, refusal["data"]) {
		t.Errorf("error %+v, encoding/json reads %s, %v", e, refusal, err)
	}
}

func TestParseAnswer(t *testing.T) {
	for body, want := range map[string]int{
		`{"jsonrpc":"2.0","id":"a","result":{"action":"accept"}}`:                         0,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`:                     0,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`:            mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"result":[]}`:                                            mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                          mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"error":{}}`:                                             mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`:                     mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":5}}`:                         mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"error":"no"}`:                                           mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","result":{}}`:                                                   mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`:                                 mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}`:                      mcp.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"error":{"code":99999999999999999999,"message":"long"}}`: mcp.CodeInvalidRequest,
	} {
		m, err := mcp.Parse([]byte(body))
		got := 0
		if err != nil {
			got = err.Code
		}
		if got != want || (m.Answer != nil) != (want == 0) {
			t.Errorf("%s: %d, %+v; want %d", body, got, m.Answer, want)
		}
	}
}
