package tool

import (
	"strings"
	"testing"
)

func TestCanonicalJSON(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"white space is removed", " { \"a\" : [ 1 , 2 ] } \n", `{"a":[1,2]}`},
		{"keys are sorted at every depth", `{"b":{"d":1,"c":2},"a":3}`, `{"a":3,"b":{"c":2,"d":1}}`},
		{"by UTF-16 code units", `{"\ufb33":1,"\ud83d\ude00":2}`, "{\"\U0001F600\":2,\"\ufb33\":1}"},
		{"escapes are resolved", `{"\u0061":"\u00e9\/\u000a"}`, "{\"a\":\"é/\\n\"}"},
		{"numbers take their shortest form", `[1.0,1e2,-0,0.10,1E+3,4.50]`, `[1,100,0,0.1,1000,4.5]`},
		{"a number that float64 holds", `9007199254740992`, `9007199254740992`},
		{"a number that float64 does not hold", `9007199254740993`, `9007199254740993`},
		{"a fraction that float64 does not hold", `9007199254740993.5`, `9007199254740993.5`},
		{"too many digits for a float64", `0.1000000000000000000001`, `0.1000000000000000000001`},
		{"too large for a float64", `[1e400,-1e400]`, `[1e400,-1e400]`},
		{"too small for a float64", `1e-400`, `1e-400`},
		{"an exponent out of all range", `1e99999999999999999999`, `1e99999999999999999999`},
		{"zero with an exponent", `0e5`, `0`},
		{"the largest 64-bit number", `18446744073709551615`, `18446744073709551615`},
		{
			"the rest is canonical around it",
			`{"z":"n9","n":{"b":9007199254740993,"a":1.0},"A":"s"}`,
			`{"A":"s","n":{"a":1,"b":9007199254740993},"z":"n9"}`,
		},
		{"strings that look like marks", `["n1","s1","",9007199254740993,"\"n1\\"]`, `["n1","s1","",9007199254740993,"\"n1\\"]`},
		{"keys keep their order beside it", `{"":1,"s":2,"n":3,"a":9007199254740993}`, `{"":1,"a":9007199254740993,"n":3,"s":2}`},
		{"bare values", `true`, `true`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Canonical([]byte(tc.in))
			if err != nil || string(got) != tc.want {
				t.Fatalf("Canonical(%s) = %s, %v; want %s", tc.in, got, err, tc.want)
			}
			again, err := Canonical(got)
			if err != nil || string(again) != tc.want {
				t.Errorf("CanonicalJSON of the result = %s, %v; want no change", again, err)
			}
		})
	}
}

// refused has texts that are not JSON, and JSON that two readers could understand differently.
var refused = []struct{ name, in string }{
	{"a key twice", `{"a":1,"a":2}`},
	{"a key twice, one escaped", `{"a":1,"\u0061":2}`},
	{"a key twice, deep", `{"x":[{"y":{"a":1,"b":2,"a":3}}]}`},
	{"a key twice beside a large number", `{"n":9007199254740993,"a":1,"a":2}`},
	{"invalid UTF-8", "{\"a\":\"\xff\"}"},
	{"invalid UTF-8 in a key", "{\"\xc3\x28\":1}"},
	{"an encoded surrogate", "{\"a\":\"\xed\xa0\x80\"}"},
	{"an overlong form", "{\"a\":\"\xc0\xaf\"}"},
	{"a lone high surrogate", `{"a":"\ud800"}`},
	{"a lone low surrogate", `{"a":"\udc00"}`},
	{"two high surrogates", `{"a":"\ud800\ud800"}`},
	{"a lone surrogate in a key", `{"\ud800":1}`},
	{"a lone surrogate beside a large number", `{"n":9007199254740993,"a":"\ud800"}`},
	{"nothing", ``},
	{"two values", `{}{}`},
	{"a value and a half", `{"a":1}]`},
	{"cut off", `{"a":`},
	{"a trailing comma", `[1,]`},
	{"a comment", `{/*a*/}`},
	{"a leading zero", `[01]`},
	{"a byte order mark", "\ufeff{}"},
	{"a raw control character", "\"\x01\""},
	{"a number that is none", `[NaN]`},
	{"an unknown escape", `"\x41"`},
	{"an unclosed nesting", strings.Repeat("[", 20000)},
	{"a nesting that is too deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000)},
}

func TestCanonicalJSONRefuses(t *testing.T) {
	for _, tc := range refused {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Canonical([]byte(tc.in)); err == nil {
				t.Errorf("Canonical(%.80s) = %.80s, want an error", tc.in, got)
			}
		})
	}
}
