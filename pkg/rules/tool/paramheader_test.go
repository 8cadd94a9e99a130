package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestEncodeHeader(t *testing.T) {
	for name, want := range map[string]string{
		"get_weather": "get_weather", "a,b": "a,b", "": "", "in side": "in side",
		"Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "\t": "=?base64?CQ==?=",
	} {
		if got := tool.EncodeHeader(name); got != want {
			t.Errorf("EncodeHeader(%q) = %q, want %q", name, got, want)
		}
		if got, ok := tool.DecodeHeader(want); !ok || got != name {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", want, got, ok, name)
		}
	}
	for _, bad := range []string{"=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "K\xf6ln", "Köln", "a\x00"} {
		if got, ok := tool.DecodeHeader(bad); ok {
			t.Errorf("DecodeHeader(%q) = %q, want it refused", bad, got)
		}
	}
	for _, plain := range []string{"=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "a\tb"} {
		if got, ok := tool.DecodeHeader(plain); !ok || got != plain {
			t.Errorf("DecodeHeader(%q) = %q, %v, want it as it is", plain, got, ok)
		}
	}
}

func TestHeaderParams(t *testing.T) {
	for schema, ok := range map[string]bool{
		`{"type":"object"}`: true,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`:                                                   true,
		`{"properties":{"x-mcp-header":{"type":"string"}}}`:                                                           true,
		`{"properties":{"a":{"type":"string","default":{"x-mcp-header":1}}}}`:                                         true,
		`{"properties":{"a":true,"b":{"type":"string","x-mcp-header":"B"}}}`:                                          true,
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`:                                                   false,
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                                    false,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`:                                                 false,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`:                                              false,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`:                                                     false,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`:          false,
		`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`:                          false,
		`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`:                                       false,
		`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}`:                                        false,
		`{"x-mcp-header":"A","type":"string"}`:                                                                        false,
		strings.Repeat(`{"properties":{"a":`, 40) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat(`}}`, 40): false,
	} {
		if _, err := tool.HeaderParams(json.RawMessage(schema)); (err == nil) != ok {
			t.Errorf("HeaderParams(%s) = %v, want ok %t", schema, err, ok)
		}
	}
}

func TestHeaderParamAgrees(t *testing.T) {
	params, err := tool.HeaderParams(json.RawMessage(`{"properties":{"o":{"properties":{"v":{"type":"string","x-mcp-header":"V"}}}}}`))
	if err != nil || len(params) != 1 || params[0].Header != "Mcp-Param-V" {
		t.Fatalf("HeaderParams = %+v, %v", params, err)
	}
	for _, tt := range []struct {
		value, header string
		want          bool
	}{
		{`"eu"`, "eu", true}, {`"eu"`, "EU", false}, {`"eu"`, "", false}, {`""`, "", true}, {`"K\u00f6ln"`, "Köln", true},
		{`42`, "42", true}, {`42`, "42.0", true}, {`42.0`, "42", true}, {`4.2e1`, "42", true}, {`42`, "43", false}, {`-7`, "-7", true},
		{`"42"`, "42", true}, {`"42"`, "42.0", false}, // a text is no number
		{`true`, "true", true}, {`true`, "True", false}, {`false`, "true", false},
		{`null`, "null", false}, {`[1]`, "1", false}, {`1.5`, "1.5", false}, {`9007199254740993`, "9007199254740993", false},
	} {
		if got := params[0].Agrees(tt.header, json.RawMessage(`{"o":{"v":`+tt.value+`}}`)); got != tt.want {
			t.Errorf("%s and header %q agree: %v, want %v", tt.value, tt.header, got, tt.want)
		}
	}
	if params[0].Agrees("", json.RawMessage(`{"o":{}}`)) || params[0].Agrees("", nil) {
		t.Error("a header agrees with an argument that is not there")
	}
}
