package request_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

func TestHashArgs(t *testing.T) {
	hash := func(text string) string { return request.HashArgs(json.RawMessage(text)) }
	for name, same := range map[string][]string{
		"nothing":                 {"", "{}", " { } ", "{\n}"},
		"another order of names":  {`{"a":1,"b":[1,2],"c":{"d":1,"e":2}}`, `{"c":{"e":2,"d":1},"b":[1,2],"a":1}`, " { \"b\" : [ 1 , 2 ],\"a\":1,\t\"c\":{\"d\":1,\"e\":2}}"},
		"a number in other forms": {`{"n":1}`, `{"n":1.0}`, `{"n":1e0}`, `{"n":1.00E+0}`, `{"n":10e-1}`, `{"n":0.1e1}`},
		"zero":                    {`{"n":0}`, `{"n":-0}`, `{"n":0.0}`, `{"n":-0.0e5}`},
		"letters as escapes":      {`{"s":"é/<\u0041"}`, `{"s":"\u00e9\/\u003cA"}`, `{"\u0073":"\u00E9/<A"}`},
		"a pair of surrogates":    {`{"s":"😀"}`, `{"s":"\ud83d\ude00"}`},
		"a large number":          {`{"n":123456789012345678}`, ` {"n":123456789012345678}`},
	} {
		for _, text := range same {
			if got := hash(text); got == "" || got != hash(same[0]) || len(got) != 64 {
				t.Errorf("%s: %s has the hash %q, %s has %q", name, text, got, same[0], hash(same[0]))
			}
		}
	}
	seen := map[string]string{}
	for _, text := range []string{
		"{}", "[]", "null", `""`, "0", `{"a":null}`, `{"a":[]}`, `{"a":{}}`, `{"a":""}`, `{"a":0}`, `{"a":false}`, `{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"A":1}`,
		`{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":{"b":1}}`, `{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":9007199254740991}`,
		`{"a":0.1}`, `{"a":0.10000000000000001}`, `{"a":1e400}`, `{"a":1e401}`, `{"a":1e-400}`, `{"a":-1}`, `{"a":" "}`, `{"a":"\u0000"}`, `{"a":"é"}`, `{"a":"e\u0301"}`,
		`{"a":100000000000000000000}`, `{"a":100000000000000000001}`,
	} {
		got := hash(text)
		if other, is := seen[got]; is || got == "" {
			t.Errorf("%s has the hash %q, like %q", text, got, other)
		}
		seen[got] = text
	}
	for _, text := range []string{
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":2}}`, `{"a":1}{}`, `{"a":01}`, `{a:1}`, `{"a":NaN}`, `{`, ` `, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`,
		strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
	} {
		if got := hash(text); got != "" {
			t.Errorf("%.40s has the hash %q, want none", text, got)
		}
	}
}
