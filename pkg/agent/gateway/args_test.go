package gateway

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

// parsed returns the call of a tool with arguments; "": none.
func parsed(name, arguments string) mcp.Request {
	if arguments != "" {
		arguments = `,"arguments":` + arguments
	}
	r, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"` + arguments + `}}`))
	if err != nil {
		panic(err)
	}
	return r
}

// readRetrieve reads arguments as retrieve_tools does.
func readRetrieve(raw string) (limit int, flag bool, fault string) {
	a := readArguments(parsed("retrieve_tools", raw), "query", "limit", "include_disabled", "detail", "read_only")
	a.text("query", true, "a few words")
	limit = a.integer("limit", 1, maxLimit, 10)
	flag = a.boolean("include_disabled")
	a.oneOf("detail", "compact", "full")
	return limit, flag, a.fault()
}

func TestArgumentsRefused(t *testing.T) {
	tests := []struct {
		name, raw string
		want      []string // parts of the message
	}{
		{"limit zero", `{"query":"q","limit":0}`, []string{"limit must be an integer from 1 to 50, not 0"}},
		{"limit with a fraction", `{"query":"q","limit":1.5}`, []string{"limit must be an integer from 1 to 50, not 1.5"}},
		{"limit beyond any float", `{"query":"q","limit":1e999}`, []string{"not 1e999"}},
		{"limit as text", `{"query":"q","limit":"5"}`, []string{`limit must be an integer from 1 to 50, not the string "5"`}},
		{"flag as text", `{"query":"q","include_disabled":"true"}`, []string{`include_disabled must be true or false, not the string "true"`}},
		{"unknown detail", `{"query":"q","detail":"long"}`, []string{`detail must be compact or full, not the string "long"`}},
		{"no query", `{}`, []string{"query is missing: give a few words"}},
		{"no arguments", ``, []string{"query is missing"}},
		{"null arguments", `null`, []string{"query is missing"}},
		{"empty query", `{"query":""}`, []string{"query is empty"}},
		{"query of another type", `{"query":7}`, []string{"query must be a string"}},
		{"long query", `{"query":"` + strings.Repeat("é", 10_000) + `"}`, []string{"query has 10000 characters, at most 2000"}},
		{"unknown argument", `{"query":"q","nope":1}`, []string{`unknown argument "nope"`, "takes query, limit, include_disabled, detail, read_only"}},
		{"key in another case", `{"Query":"q"}`, []string{`unknown argument "Query"`, "query is missing"}},
		{"a list for arguments", `["q"]`, []string{"arguments must be a JSON object"}},
		{"two faults at once", `{"query":"","limit":0}`, []string{"query is empty", "limit must be"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, got := readRetrieve(tt.raw)
			for _, part := range append(tt.want, "Invalid arguments for retrieve_tools: ") {
				if !strings.Contains(got, part) {
					t.Errorf("message %q does not say %q", got, part)
				}
			}
		})
	}
}

func TestArguments(t *testing.T) {
	tests := []struct {
		name, raw string
		limit     int
		flag      bool
	}{
		{"query alone", `{"query":"q"}`, 10, false},
		{"all", `{"query":"q","limit":50,"include_disabled":true,"detail":"full","read_only":true}`, 50, true},
		{"an integer written as a float", `{"query":"q","limit":5.0}`, 5, false},
		{"an integer written with an exponent", `{"query":"q","limit":1e1}`, 10, false},
		{"null counts as absent", `{"query":"q","limit":null,"include_disabled":null,"detail":null}`, 10, false},
		{"other scripts", `{"query":"天気 погода"}`, 10, false},
		{"control characters", `{"query":"a\u0000\u001b[2Jb"}`, 10, false},
		{"query of the maximum length", `{"query":"` + strings.Repeat("é", maxText) + `"}`, 10, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit, flag, fault := readRetrieve(tt.raw)
			if fault != "" || limit != tt.limit || flag != tt.flag {
				t.Errorf("limit %d, flag %v, fault %q; want %d, %v, none", limit, flag, fault, tt.limit, tt.flag)
			}
		})
	}
}

func TestArgumentNames(t *testing.T) {
	read := func(raw string) ([]string, string) {
		a := readArguments(parsed("describe_tools", raw), "names")
		return a.names("names", maxNames), a.fault()
	}
	for raw, want := range map[string]string{
		`{}`:                           "names is missing",
		`{"names":[]}`:                 "names must be a list of 1 to 10",
		`{"names":"a:b"}`:              "names must be a list of 1 to 10",
		`{"names":["a:b",7]}`:          "names[1] must be a string of the form server:tool, not 7",
		`{"names":[null]}`:             "names[0] must be a string",
		`{"names":["a:b"],"name":"x"}`: `unknown argument "name"`,
		`{"names":[` + strings.Repeat(`"a:b",`, 10) + `"a:b"]}`: "names must be a list of 1 to 10",
	} {
		if _, fault := read(raw); !strings.Contains(fault, want) {
			t.Errorf("%s: message %q does not say %q", raw, fault, want)
		}
	}
	got, fault := read(`{"names":["b:x","a:b","b:x"]}`)
	if fault != "" || strings.Join(got, " ") != "b:x a:b" {
		t.Errorf("got %q, fault %q; want each name once, in their order", got, fault)
	}
}

func TestQuote(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for in, want := range map[string]string{
		"plain":             `"plain"`,
		"two\nlines \x1b[0": `"two\nlines \x1b[0"`,
		"bad \xff utf-8":    `"bad � utf-8"`,
		long:                `"` + strings.Repeat("ä", 79) + `…"`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%.20q) = %s, want %s", in, got, want)
		}
	}
}
