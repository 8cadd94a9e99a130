package mcp_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
)

// Whatever is read as a message, encoding/json reads the same in it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"x","result":{}}`,
		`[]`, ``, `{"id":1,"id":2}`, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"NAME":1}}`, "{\"a\":\"\\ud800\"}", "{} {}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := mcp.Parse(body)
		id := mcp.PeekID(bytes.NewReader(body))
		if err == nil && m.Method != "" && !bytes.Equal(id, m.ID) {
			t.Errorf("id %q, read in passing %q", m.ID, id)
		}
		if id != nil && !json.Valid(id) {
			t.Errorf("read in passing: %q", id)
		}
		if err != nil {
			if err.Status != 400 || err.Message == "" {
				t.Errorf("refused with %+v", err)
			}
			return
		}
		if m.Method == "" {
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
		var params struct { // takes names in any case
			Name      any
			Arguments json.RawMessage
			Meta      map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(envelope["params"], &params); err != nil || len(params.Meta) != len(m.Meta) {
			t.Errorf("_meta %v, encoding/json reads %q, %v", m.Meta, params.Meta, err)
		}
		for _, member := range m.Meta {
			if !bytes.Equal(member.Value, params.Meta[member.Name]) {
				t.Errorf("_meta %q is %s, encoding/json reads %s", member.Name, member.Value, params.Meta[member.Name])
			}
		}
		if m.Method != mcp.MethodCallTool {
			return
		}
		if params.Name != nil && params.Name != m.Name {
			t.Errorf("name %q, encoding/json reads %q", m.Name, params.Name)
		}
		if !bytes.Equal(params.Arguments, m.Arguments) {
			t.Errorf("arguments %q, encoding/json reads %q", m.Arguments, params.Arguments)
		}
	})
}
