package rawjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/allocated"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestIndent(t *testing.T) {
	for name, raw := range map[string]string{
		"an object":    `{"b":[1,2.50,{"x":"a, {\"b\"}: \\"}],"a":{"c":null,"d":true}}`,
		"empty ones":   `{"a":{},"b":[ ],"c":[{}, [ [] ]]}`,
		"white space":  " {\n\"a\" :\t[ 1 ,\r\n2 ] } ",
		"a text":       `"a\"b"`,
		"a number":     ` -1.5e3 `,
		"one name":     `{"a":1,"a":2}`,
		"other quotes": `["\\","\\\"",""]`,
	} {
		for _, prefix := range []string{"", "\t"} {
			var want bytes.Buffer
			require.OK(t, json.Indent(&want, []byte(raw), prefix, "  "))
			if got := rawjson.Indent([]byte(raw), prefix, "  "); got != strings.TrimSpace(want.String()) {
				t.Errorf("%s: Indent = %s\nwant %s", name, got, want.String())
			}
		}
	}
	for _, raw := range []string{"", "{", "[1,]", "text", "{} {}"} {
		if got := rawjson.Indent([]byte(raw), "", "  "); got != raw {
			t.Errorf("Indent(%q) = %q, want no change", raw, got)
		}
	}
}

// The deepest levels stay in one line if the indentation would take too much.
func TestIndentDeep(t *testing.T) {
	nested := func(n int, inner string) string {
		return strings.Repeat(`[`, n) + inner + strings.Repeat(`]`, n)
	}
	for name, raw := range map[string]string{
		"nested":             nested(9_400, ""),
		"nested in a member": `{"name":"x","inputSchema":` + nested(9_000, "") + `}`,
		"values in the deep": nested(190, "1"+strings.Repeat(",1", 60_000)),
		"many of them":       `[1` + strings.Repeat(","+nested(400, "{}"), 1_300) + `]`,
		"1 MB of values":     `[1` + strings.Repeat(",1", 1<<19) + `]`,
	} {
		var got string
		data, most := []byte(raw), uint64(3*len(raw)+64<<10)
		if n := allocated.By(func() { got = rawjson.Indent(data, "", "  ") }); n > most || uint64(len(got)) > most {
			t.Errorf("%s: Indent allocates %d bytes and returns %d for %d, want at most %d", name, n, len(got), len(raw), most)
		}
		var same bytes.Buffer
		if err := json.Compact(&same, []byte(got)); err != nil || same.String() != raw {
			t.Errorf("%s: Indent changes more than white space: %v", name, err)
		}
		if !strings.Contains(got, "\n") {
			t.Errorf("%s: Indent writes everything in one line", name)
		}
	}
	if got := rawjson.Indent([]byte(`{"a":[1]}`), strings.Repeat(" ", 1<<20), "  "); got != `{"a":[1]}` {
		t.Errorf("Indent with a prefix of 1 MB returns %d bytes", len(got))
	}
}

func TestLen(t *testing.T) {
	for raw, want := range map[string]int{
		``: 0, `1`: 0, `"a,b"`: 0, `{}`: 0, "\t[]\n": 0, `[1]`: 1, `[[1,2],{"a":1,"b":2},",",3]`: 4, `{"a":{"b":1,"c":[1,2]},"d":"{,"}`: 2,
	} {
		if got := rawjson.Len([]byte(raw)); got != want {
			t.Errorf("Len(%s) = %d, want %d", raw, got, want)
		}
	}
}

func TestDepth(t *testing.T) {
	for raw, want := range map[string]int{
		`1`: 0, `"[["`: 0, `{}`: 1, `[1,[2],{"a":[3]}]`: 3, `["\"[", {}]`: 2, `[[`: 2, ``: 0, `"[`: 0, `"\`: 0,
		"{ // [[[ \"\n \"a\": [] /* [[ /*/ }": 2, `{ /*/ [[ */ }`: 1, `[//`: 1, `[/`: 1, `/* [`: 0,
		strings.Repeat("[", 20_000): 20_000,
	} {
		if got := rawjson.Depth([]byte(raw)); got != want {
			t.Errorf("Depth(%.40q) = %d, want %d", raw, got, want)
		}
	}
}

// Indent changes nothing but white space.
func FuzzIndent(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":"x\"]},{"}],"z":1.50}`, `[[[]]]`, `"\\"`, `{"a" : "[,]" , "b":[ ]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := rawjson.Indent(raw, "", "  ")
		if !json.Valid(raw) {
			if got != string(raw) {
				t.Fatalf("Indent(%q) = %q", raw, got)
			}
			return
		}
		var before, after bytes.Buffer
		if json.Compact(&before, raw) != nil || json.Compact(&after, []byte(got)) != nil || before.String() != after.String() {
			t.Fatalf("Indent(%q) = %q", raw, got)
		}
		if len(got) > max(3*len(raw), len(raw)+4<<10) {
			t.Fatalf("%d bytes for %d", len(got), len(raw))
		}
	})
}
