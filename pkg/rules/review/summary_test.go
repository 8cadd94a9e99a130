package review_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func definition(t testing.TB, raw string) tool.Definition {
	t.Helper()
	d, err := tool.ParseItem(tool.Tool, []byte(raw))
	require.OK(t, err)
	return d
}

// items writes each item as one line: op what path | text | risk.
func items(c review.Change) (out []string) {
	for _, i := range c.Items {
		out = append(out, strings.TrimSpace(i.Op+i.What+" "+i.Path)+" | "+i.Text+" | "+i.Risk)
	}
	return out
}

// TestSummarizeInput summarizes changes of input schemas. The table has the members of each schema,
// without its braces.
func TestSummarizeInput(t *testing.T) {
	for _, tt := range []struct {
		name, before, now string
		want              []string
	}{
		{"the order of members", `"type":"object","properties":{"a":{},"b":{}}`, `"properties":{"b":{},"a":{}},"type":"object"`, nil},
		{"a new parameter", `"properties":{}`, `"properties":{"run_as":{"type":"string","description":"user to run as; root is allowed"}}`,
			[]string{`+parameter run_as | string, optional, "user to run as; root is allowed" | new power`}},
		{"a new required parameter", ``, `"properties":{"n":{"type":["integer","null"]}},"required":["n"]`,
			[]string{`+parameter n | "integer", "null", required | new power`}},
		{"a removed parameter", `"properties":{"a":{"enum":["x"]}},"required":["a"]`, `"properties":{}`, []string{`-parameter a | one of "x", required | `}},
		{"a new parameter in an object", `"properties":{"f":{"properties":{}}}`, `"properties":{"f":{"properties":{"g h":{}}}}`,
			[]string{`+parameter f."g h" | of any type, optional | new power`}},
		{"in the elements of an array", `"properties":{"f":{"items":{"properties":{"x":{"type":"string"}}}}}`, `"properties":{"f":{"items":{"properties":{"x":{"type":"number"}}}}}`,
			[]string{`~type f[].x | "string" → "number" | takes more values`}},
		{"no longer required", `"properties":{"a":{}},"required":["a"]`, `"properties":{"a":{}}`, []string{"-required a | optional now | may be left out now"}},
		{"now required", `"properties":{"a":{}}`, `"properties":{"a":{}},"required":["a"]`, []string{"+required a | required now | "}},
		{"required in another order", `"required":["a","b"]`, `"required":["b","a"]`, []string{`~required | ["a","b"] → ["b","a"] | not judged`}},
		{"a wider type", `"properties":{"a":{"type":"string"}}`, `"properties":{"a":{"type":["string","array"]}}`, []string{`~type a | "string" → ["string","array"] | takes more values`}},
		{"a narrower type", `"properties":{"a":{"type":"number"}}`, `"properties":{"a":{"type":"integer"}}`, []string{`~type a | "number" → "integer" | `}},
		{"a removed type", `"properties":{"a":{"type":"number"}}`, `"properties":{"a":{}}`, []string{`-type a | "number" | takes more values`}},
		{"new and removed values", `"properties":{"a":{"enum":["r","w"]}}`, `"properties":{"a":{"enum":["r","x","y"]}}`,
			[]string{`+enum a | "x", "y" | takes more values`, `-enum a | "w" | `}},
		{"values in another order", `"properties":{"a":{"enum":[1,2]}}`, `"properties":{"a":{"enum":[2,1]}}`, []string{`~enum a | in another order, or one value twice | `}},
		{"a removed enum", `"properties":{"a":{"enum":[1]}}`, `"properties":{"a":{}}`, []string{`-enum a | [1] | takes more values`}},
		{"another default", `"properties":{"dry":{"default":true}}`, `"properties":{"dry":{"default":false}}`, []string{`~default dry | true → false | acts differently by default`}},
		{"a higher bound", `"properties":{"a":{"maximum":10}}`, `"properties":{"a":{"maximum":1e3}}`, []string{`~bounds a | maximum 10 → 1000 | takes more values`}},
		{"a lower bound", `"properties":{"a":{"maxLength":10}}`, `"properties":{"a":{"maxLength":9}}`, []string{`~bounds a | maxLength 10 → 9 | `}},
		{"a lower minimum", `"properties":{"a":{"minimum":1}}`, `"properties":{"a":{"minimum":-1}}`, []string{`~bounds a | minimum 1 → -1 | takes more values`}},
		{"a removed bound", `"properties":{"a":{"minimum":1}}`, `"properties":{"a":{}}`, []string{`-bounds a | minimum 1 | takes more values`}},
		{"bounds that a float64 cannot distinguish", `"properties":{"a":{"maximum":9007199254740993}}`, `"properties":{"a":{"maximum":9007199254740992}}`,
			[]string{`~bounds a | maximum 9007199254740993 → 9007199254740992 | not judged`}},
		{"another pattern", `"properties":{"a":{"pattern":"^a$"}}`, `"properties":{"a":{"pattern":"a"}}`, []string{`~bounds a | pattern "^a$" → "a" | not judged`}},
		{"a format", `"properties":{"a":{"format":"uri"}}`, `"properties":{"a":{"format":"email"}}`, []string{`~format a | "uri" → "email" | `}},
		{"a description", `"properties":{"a":{"description":"the user"}}`, `"properties":{"a":{"description":"the root user"}}`, []string{`~description a | +1 word | `}},
		{"other members are allowed now", `"additionalProperties":false`, ``, []string{`-additionalProperties | false | takes more values`}},
		{"other members are forbidden now", `"additionalProperties":{}`, `"additionalProperties":false`, []string{`~additionalProperties | {} → false | `}},
		{"a reference", `"properties":{"a":{"$ref":"#/$defs/a"}}`, `"properties":{"a":{"$ref":"#/$defs/b"}}`, []string{`~$ref a | "#/$defs/a" → "#/$defs/b" | not judged`}},
		{"the target of a reference", `"$defs":{"a":{"properties":{}}}`, `"$defs":{"a":{"properties":{"x":{"type":"string"}}}}`, []string{`+parameter $defs.a.x | string, optional | new power`}},
		{"an alternative", `"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}`, `"properties":{"a":{"anyOf":[{"type":"string","format":"uri"},{"type":"null"}]}}`,
			[]string{`+format a.anyOf[0] | "uri" | `}},
		{"a new alternative", `"oneOf":[{}]`, `"oneOf":[{},{"a":1}]`, []string{`~oneOf | [{}] → [{},{"a":1}] | not judged`}},
		{"an unknown keyword", `"x-role":"user"`, `"x-role":"admin"`, []string{`~x-role | "user" → "admin" | not judged`}},
		{"true instead of a schema", `"properties":{"a":{"type":"string"}}`, `"properties":{"a":true}`, []string{`~parameter a | {"type":"string"} → true | not judged`}},
		{"hidden characters", `"properties":{"a":{"default":"x"}}`, `"properties":{"a":{"default":"\u202ex"}}`, []string{`~default a | "x" → "⟨U+202E⟩x" | acts differently by default`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := review.Summarize(
				definition(t, `{"name":"t","inputSchema":{`+tt.before+`}}`),
				definition(t, `{"name":"t","inputSchema":{`+tt.now+`}}`),
			)
			if diff := cmp.Diff(tt.want, items(c)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	for _, tt := range []struct {
		name, before, now string
		want              []string
		line              string
	}{
		{"nothing", `{"name":"t","description":"a"}`, `{ "description":"\u0061", "name":"t" }`, nil, "no change"},
		{"words", `{"name":"t","description":"Reads one file."}`, `{"name":"t","description":"Reads all the files."}`,
			[]string{"~description | +3 −2 words | "}, "description +3 −2 words"},
		{"characters between words", `{"name":"t","description":"Reads."}`, `{"name":"t","description":"Reads.\u200b"}`,
			[]string{"~description | no words, only characters between them | "}, "description no words, only characters between them"},
		{"a removed description", `{"name":"t","description":"Reads."}`, `{"name":"t"}`, []string{"-description | −1 word | "}, "-description"},
		{"null", `{"name":"t","description":null}`, `{"name":"t"}`, []string{"-description | null | "}, "-description"},
		{"a title", `{"name":"t","title":"Old"}`, `{"name":"t","title":"New"}`, []string{`~title | "Old" → "New" | `}, "title"},
		{"a higher tier", `{"name":"t","annotations":{"readOnlyHint":true}}`, `{"name":"t","annotations":{"readOnlyHint":false}}`,
			[]string{"~tier | read → destructive | higher tier", "~annotation readOnlyHint | true → false | "}, "tier read → destructive, annotation readOnlyHint"},
		{"a lower tier", `{"name":"t"}`, `{"name":"t","annotations":{"readOnlyHint":true}}`,
			[]string{"~tier | destructive → read | ", `+annotations | {"readOnlyHint":true} | `}, "tier destructive → read, +annotations"},
		{"an open world", `{"name":"t","annotations":{"openWorldHint":false,"idempotentHint":true}}`, `{"name":"t","annotations":{}}`,
			[]string{"-annotation idempotentHint | true | acts again when repeated", "-annotation openWorldHint | false | reaches the outside world"}, "-annotation idempotentHint, -annotation openWorldHint"},
		{"the result", `{"name":"t","outputSchema":{"properties":{"a":{"type":"string"}}}}`, `{"name":"t","outputSchema":{"properties":{"a":{},"b":{}}}}`,
			[]string{`-type a | "string" | `, "+result b | of any type, optional | "}, "-type a, +result b"},
		{"a new schema", `{"name":"t"}`, `{"name":"t","inputSchema":{}}`, []string{"+inputSchema | {} | "}, "+inputSchema"},
		{"an unknown member", `{"name":"t","_meta":{"a":1}}`, `{"name":"t","_meta":{"a":2}}`, []string{`~_meta | {"a":1} → {"a":2} | `}, "_meta"},
		{"a parameter and a word", `{"name":"t","description":"a b","inputSchema":{"properties":{}}}`, `{"name":"t","description":"a always b","inputSchema":{"properties":{"run_as":{}}}}`,
			[]string{"+parameter run_as | of any type, optional | new power", "~description | +1 word | "}, "+parameter run_as, description +1 word"},
		{"many parameters", `{"name":"t","inputSchema":{"properties":{}}}`, `{"name":"t","inputSchema":{"properties":{"aaaaaaaaaaaaaaaaaaaa":{},"bbbbbbbbbbbbbbbbbbbbb":{},"ccccccccccccccccccccccc":{},"d":{}}}}`,
			[]string{"+parameter aaaaaaaaaaaaaaaaaaaa | of any type, optional | new power", "+parameter bbbbbbbbbbbbbbbbbbbbb | of any type, optional | new power", "+parameter ccccccccccccccccccccccc | of any type, optional | new power", "+parameter d | of any type, optional | new power"},
			"+parameter aaaaaaaaaaaaaaaaaaaa, +parameter bbbbbbbbbbbbbbbbbbbbb and 2 changes more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := review.Summarize(definition(t, tt.before), definition(t, tt.now))
			if diff := cmp.Diff(tt.want, items(c)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if got := c.Line(); got != tt.line {
				t.Errorf("Line = %q, want %q", got, tt.line)
			}
		})
	}
}

func TestSummarizeNew(t *testing.T) {
	d := definition(
		t,
		`{"name":"t","description":"Reads it.","inputSchema":{"properties":{"path":{"type":"string"}},"required":["path"]}}`,
	)
	want := []string{
		`+parameter path | string, required | new power`,
		"+description | +2 words | ",
		`+name | "t" | `,
	}
	if diff := cmp.Diff(want, items(review.Summarize(tool.Definition{}, d))); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if got := review.Outline(d); got != "1 parameter" {
		t.Errorf("Outline = %q", got)
	}
	if got := review.Outline(definition(t, `{"name":"t"}`)); got != "0 parameters" {
		t.Errorf("Outline = %q", got)
	}
}

// Harmless changes do not displace a risky change.
func TestSummarizeMany(t *testing.T) {
	schema := func(text string, last string) string {
		var b strings.Builder
		for i := range 500 {
			fmt.Fprintf(&b, `"p%03d":{"description":%q},`, i, text)
		}
		return `{"name":"t","inputSchema":{"properties":{` + b.String() + `"z":` + last + `}}}`
	}
	c := review.Summarize(
		definition(t, schema("old", `{"maximum":1}`)),
		definition(t, schema("new", `{"maximum":2}`)),
	)
	isHarmless := func(i review.Item) bool { return i.Risk == "" }
	risky := len(slices.DeleteFunc(slices.Clone(c.Items), isHarmless))
	if len(c.Items) != 200 || c.More != 301 || risky != 1 || c.Items[0].Path != "z" {
		t.Errorf("%d items and %d more, %d risky; the first is %+v", len(c.Items), c.More, risky, c.Items[0])
	}
	if !strings.HasSuffix(c.Line(), " more") {
		t.Errorf("Line = %q", c.Line())
	}
}

// generate returns a random value that looks like a part of a definition.
func generate(rng *rand.Rand, depth int) any {
	words := strings.Split("type|string|properties|required|items|enum|a|b|default|description|anyOf|$ref|"+
		"maximum|pattern|title|const|x y||additionalProperties|$defs|uniqueItems|minLength|prefixItems|format", "|")
	pick := func() string { return words[rng.IntN(len(words))] }
	switch n := rng.IntN(8); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[pick()] = generate(rng, depth-1)
		}
		return m
	case n == 3 && depth > 0:
		list := []any{}
		for range rng.IntN(3) {
			list = append(list, generate(rng, depth-1))
		}
		return list
	case n == 4:
		return rng.IntN(3)
	case n == 5:
		return rng.IntN(2) == 0
	case n == 6:
		return nil
	}
	return pick()
}

// mutate changes one value somewhere in v.
func mutate(rng *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if keys := slices.Sorted(maps.Keys(v)); len(keys) > 0 && rng.IntN(4) > 0 {
			c := maps.Clone(v)
			k := keys[rng.IntN(len(keys))]
			if c[k] = mutate(rng, v[k]); rng.IntN(5) == 0 {
				delete(c, k)
			}
			return c
		}
	case []any:
		if len(v) > 0 && rng.IntN(4) > 0 {
			c := slices.Clone(v)
			i := rng.IntN(len(v))
			c[i] = mutate(rng, v[i])
			return c
		}
	}
	return generate(rng, 3)
}

// There is an item for a pair of definitions exactly if their canonical forms differ.
func TestSummarizeLeavesNothingOut(t *testing.T) {
	object := func(rng *rand.Rand) map[string]any {
		for {
			if m, ok := generate(rng, 5).(map[string]any); ok {
				return m
			}
		}
	}
	changed := 0
	for seed := range uint64(5_000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := map[string]any{
			"name":         "t",
			"inputSchema":  object(rng),
			"outputSchema": object(rng),
			"_meta":        generate(rng, 3),
			"annotations":  map[string]any{"readOnlyHint": rng.IntN(2) == 0, "x": generate(rng, 2)},
		}
		other := maps.Clone(d)
		for range 1 + rng.IntN(3) {
			key := []string{"inputSchema", "outputSchema", "_meta"}[rng.IntN(3)]
			if v, ok := mutate(rng, other[key]).(map[string]any); ok || key == "_meta" {
				other[key] = v
			}
		}
		if rng.IntN(8) == 0 {
			delete(other, "outputSchema")
		}
		holds(t, encode(t, d), encode(t, other))
		if !bytes.Equal(encode(t, d), encode(t, other)) {
			changed++
		}
	}
	if changed < 2_500 {
		t.Errorf("only %d pairs differ: the generator is broken", changed)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.OK(t, err)
	return b
}

// holds checks the promises of the summary of two definitions.
func holds(t *testing.T, before, now []byte) {
	t.Helper()
	a, err := tool.ParseItem(tool.Tool, before)
	if err != nil {
		return
	}
	b, err := tool.ParseItem(tool.Tool, now)
	if err != nil {
		return
	}
	c := review.Summarize(a, b)
	if (len(c.Items) == 0) != (a.Hash == b.Hash) {
		t.Fatalf("%d items between\n%s and\n%s", len(c.Items), before, now)
	}
	for _, i := range c.Items {
		for _, s := range []string{i.What, i.Path, i.Text, c.Line()} {
			if utf8.RuneCountInString(s) > 500 || strings.ContainsAny(s, "\n\x00\u202e") ||
				!utf8.ValidString(s) {
				t.Fatalf("item %+q of\n%s and\n%s", i, before, now)
			}
		}
	}
}

func FuzzSummarize(f *testing.F) {
	f.Add(
		[]byte(
			`{"name":"t","inputSchema":{"properties":{"a":{"type":"string"}},"required":["a"]}}`,
		),
		[]byte(`{"name":"t","inputSchema":{"properties":{"a":{"enum":[1,"\u202e"]}}}}`),
	)
	f.Add(
		[]byte(`{"name":"t","annotations":{"readOnlyHint":true}}`),
		[]byte(`{"name":"t","outputSchema":{"anyOf":[{}]},"description":"x\ny"}`),
	)
	f.Fuzz(holds)
}

// hostileDefinitions returns the pairs of definitions of 128 KiB that are most expensive to
// compare.
func hostileDefinitions(t testing.TB) map[string][2]tool.Definition {
	nested := func(leaf string) string {
		const depth = 3000
		return `{"name":"t","inputSchema":` + strings.Repeat(
			`{"properties":{"a":`,
			depth,
		) + leaf + strings.Repeat(
			`}}`,
			depth,
		) + `}`
	}
	wide := func(kind string) string {
		var b, r strings.Builder
		for i := range 2500 {
			fmt.Fprintf(&b, `"p%d":{"type":"%s","enum":[%d]},`, i, kind, i)
			fmt.Fprintf(&r, `"%s%d",`, kind[:1], i)
		}
		return `{"name":"t","inputSchema":{"properties":{` + b.String() + `"z":{}},"required":[` + r.String() + `"z"]}}`
	}
	names := func(prefix string) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, `"%s%d":{"type":"a"},`, prefix, i)
		}
		return `{"name":"t","inputSchema":{"properties":{` + b.String() + `"z":{}}}}`
	}
	out := map[string][2]tool.Definition{
		"deep":                  {definition(t, nested("1")), definition(t, nested("2"))},
		"2500 parameters":       {definition(t, wide("string")), definition(t, wide("object"))},
		"5000 other parameters": {definition(t, names("a")), definition(t, names("b"))},
	}
	for name, pair := range hostile() {
		text := func(s string) tool.Definition {
			return definition(t, `{"name":"t","description":`+string(rawjson.Quote(s))+`}`)
		}
		if max(len(rawjson.Quote(pair[0])), len(rawjson.Quote(pair[1]))) < tool.MaxDefinition-100 {
			out[name] = [2]tool.Definition{text(pair[0]), text(pair[1])}
		}
	}
	return out
}

func TestSummarizeHostile(t *testing.T) {
	for name, pair := range hostileDefinitions(t) {
		t.Run(name, func(t *testing.T) { holds(t, pair[0].Raw, pair[1].Raw) })
	}
}
