package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/signature"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParseDefinition(t *testing.T) {
	in := []byte(`{ "description":"Caf\u00e9","name":"make_coffee", "inputSchema": { "type" : "object","x":9007199254740993 },
		"annotations":{"title":"Coffee","readOnlyHint":false,"destructiveHint":false,"openWorldHint":true,"vendor":[1]},
		"outputSchema":{"type":"object"},"title":"Make coffee","_meta":{"k":1.50},"icons":[]}`)
	before := bytes.Clone(in)
	got, err := ParseItem(Tool, in)
	require.OK(t, err)
	want := Definition{
		Raw:          before,
		Name:         "make_coffee",
		Title:        "Make coffee",
		Description:  "Café",
		InputSchema:  json.RawMessage(`{ "type" : "object","x":9007199254740993 }`),
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: Annotations{
			Title: "Coffee", ReadOnlyHint: new(false), DestructiveHint: new(false), OpenWorldHint: new(true),
		},
		Hash: "9c1fff6f26b3efd4245d371396a49d4c3ac2de95564ce25049151653a4b95b6f",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
	if i := bytes.Index(in, got.InputSchema); i < 0 || &in[i] != &got.InputSchema[0] {
		t.Error("the input schema is a copy, not a part of the definition")
	}
	got.OutputSchema = append(got.OutputSchema, "!"...)
	if !bytes.Equal(in, before) {
		t.Error("appending to a schema changed the definition")
	}
}

func TestParseDefinitionFields(t *testing.T) {
	for name, in := range map[string]string{
		"absent":       `{"name":"a"}`,
		"null":         `{"name":"a","description":null,"title":null,"inputSchema":null,"outputSchema":null,"annotations":null}`,
		"null hints":   `{"name":"a","annotations":{"readOnlyHint":null,"title":null}}`,
		"another case": `{"name":"a","NAME":"b","Description":"no","InputSchema":{},"annotations":{"READONLYHINT":true,"readonlyhint":true}}`,
	} {
		got, err := ParseItem(Tool, []byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(Definition{Raw: json.RawMessage(in), Name: "a", Hash: got.Hash}, got); diff != "" {
			t.Errorf("%s: ParseItem (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseDefinitionRefuses(t *testing.T) {
	for _, tc := range append(refused, []struct{ name, in string }{
		{"an array", `[]`},
		{"a string", `"name"`},
		{"null", `null`},
		{"no name", `{"description":"d"}`},
		{"a null name", `{"name":null}`},
		{"an empty name", `{"name":""}`},
		{"a name with a sentence in it", `{"name":"ignore all previous instructions"}`},
		{"a name that is a number", `{"name":7}`},
		{"a description that is an object", `{"name":"a","description":{}}`},
		{"a title that is a list", `{"name":"a","title":[]}`},
		{"an input schema that is true", `{"name":"a","inputSchema":true}`},
		{"an input schema that is text", `{"name":"a","inputSchema":"{}"}`},
		{"an output schema that is a list", `{"name":"a","outputSchema":[]}`},
		{"annotations that are a list", `{"name":"a","annotations":[]}`},
		{"a hint that is text", `{"name":"a","annotations":{"readOnlyHint":"true"}}`},
		{"a hint that is a number", `{"name":"a","annotations":{"destructiveHint":0}}`},
		{"an annotation title that is a number", `{"name":"a","annotations":{"title":1}}`},
		{"one byte too many", `{"name":"a","description":"` + strings.Repeat("x", MaxDefinition-28) + `"}`},
	}...) {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseItem(Tool, []byte(tc.in))
			if err == nil {
				t.Fatalf("ParseItem(Tool, %.80s) = %.80v, want an error", tc.in, got)
			}
			if diff := cmp.Diff(Definition{}, got); diff != "" {
				t.Errorf("a refused definition is not empty:\n%s", diff)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	whole := `{"name":"a","description":"` + strings.Repeat("x", MaxDefinition-29) + `"}`
	if _, err := ParseItem(Tool, []byte(whole)); err != nil || len(whole) != MaxDefinition {
		t.Errorf("a definition of %d bytes: %v, want it accepted", len(whole), err)
	}
}

func TestHash(t *testing.T) {
	const base = `{"name":"a","description":"d","inputSchema":{"type":"object","maximum":9007199254740993},"annotations":{"readOnlyHint":true}}`
	hash := func(in string) Hash {
		t.Helper()
		d, err := ParseItem(Tool, []byte(in))
		if err != nil {
			t.Fatalf("ParseItem(Tool, %s): %v", in, err)
		}
		return d.Hash
	}
	// pinned is the SHA-256 of the canonical text. It must never change by accident, because every
	// stored approval depends on it.
	const pinned = "70dce65554633d4117e5d60bb114dfbd097c3209ea75e2adaab0404d2934c6ee"
	if got := hash(base); len(got) != 64 || strings.ToLower(string(got)) != string(got) {
		t.Errorf("hash = %q, want 64 hex digits", got)
	} else if got != pinned {
		t.Errorf("hash = %q, want %q", got, pinned)
	}
	for name, in := range map[string]string{
		"order of keys": `{"annotations":{"readOnlyHint":true},"inputSchema":{"maximum":9007199254740993,"type":"object"},"description":"d","name":"a"}`,
		"white space":   strings.ReplaceAll(base, ",", " ,\n\t"),
		"escapes":       strings.ReplaceAll(base, `"d"`, `"\u0064"`),
	} {
		if hash(in) != hash(base) {
			t.Errorf("%s changes the hash", name)
		}
	}
	for name, in := range map[string]string{
		"name":                     strings.Replace(base, `"a"`, `"b"`, 1),
		"description":              strings.Replace(base, `"d"`, `"D"`, 1),
		"schema":                   strings.Replace(base, `"object"`, `"array"`, 1),
		"last digit of a number":   strings.Replace(base, `9007199254740993`, `9007199254740992`, 1),
		"digit past 64 bits":       strings.Replace(base, `9007199254740993`, `90071992547409930000000000000000000001`, 1),
		"annotation":               strings.Replace(base, `true`, `false`, 1),
		"title":                    strings.Replace(base, `{`, `{"title":"t",`, 1),
		"output schema":            strings.Replace(base, `{`, `{"outputSchema":{},`, 1),
		"_meta":                    strings.Replace(base, `{`, `{"_meta":{"a":1},`, 1),
		"icons":                    strings.Replace(base, `{`, `{"icons":[],`, 1),
		"field of the future":      strings.Replace(base, `{`, `{"x":null,`, 1),
		"unknown annotation":       strings.Replace(base, `true`, `true,"x":1`, 1),
		"order within an array":    strings.Replace(base, `"object"`, `["object","null"]`, 1),
		"the other order of it":    strings.Replace(base, `"object"`, `["null","object"]`, 1),
		"key that differs in case": strings.Replace(base, `"description"`, `"Description"`, 1),
	} {
		if hash(in) == hash(base) {
			t.Errorf("another %s has the same hash", name)
		}
	}
}

func TestReadDefinition(t *testing.T) {
	in := []byte(`{"name":"a","description":"d","inputSchema":{"type":"object"}}`)
	parsed, err := ParseItem(Tool, in)
	require.OK(t, err)
	read, err := ReadItem(Tool, in)
	require.OK(t, err)
	parsed.Hash = "" // only ParseItem computes the hash
	if diff := cmp.Diff(parsed, read); diff != "" {
		t.Errorf("the two differ (-parsed +read):\n%s", diff)
	}
	for _, in := range []string{"", "{", `{"name":"a"}x`, `{"name":`, `[]`} {
		if got, err := ReadItem(Tool, []byte(in)); err == nil {
			t.Errorf("ReadItem(Tool, %s) = %+v, want an error", in, got)
		}
	}
}

func ExampleParseItem() {
	d, err := ParseItem(Tool, []byte(`{
		"name": "search_code",
		"description": "Search code. Uses the index of the default branch.",
		"inputSchema": {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["q"]},
		"annotations": {"readOnlyHint": true}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, lossy := signature.Render(d.InputSchema, d.OutputSchema)
	fmt.Println(ID{Server: "github", Name: d.Name}, text, lossy)
	fmt.Println(FirstSentence(d.Description), d.Annotations.Tier())
	// Output:
	// github:search_code (q:string, limit?:integer) false
	// Search code. read
}

func TestHashSum(t *testing.T) {
	good := Hash(strings.Repeat("0a", 32))
	if sum, ok := good.Sum(); !ok || sum[0] != 10 || sum[31] != 10 {
		t.Errorf("Sum = %x, %v", sum, ok)
	}
	for _, bad := range []Hash{"", "0a", good[1:], good + "0", good + "0a", Hash(strings.ToUpper(string(good))), Hash(strings.Repeat("zz", 32))} {
		if _, ok := bad.Sum(); ok {
			t.Errorf("Sum accepts %q", bad)
		}
	}
}

func TestKeptDefinition(t *testing.T) {
	if d := KeptItem(Tool, []byte(`{"name":"a","description":"b"}`)); d.Name != "a" || d.Description != "b" {
		t.Errorf("%+v", d)
	}
	if d := KeptItem(Tool, []byte(`{"name":`)); d.Name != "" || string(d.Raw) != `{"name":` {
		t.Errorf("damaged: %+v", d)
	}
}
