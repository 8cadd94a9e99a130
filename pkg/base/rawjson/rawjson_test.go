package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// show writes the members that Split returned, one a line.
func show(o rawjson.Object) (lines []string) {
	for _, m := range o {
		lines = append(lines, m.Name+" = "+string(m.Value))
		for _, l := range show(m.Members) {
			lines = append(lines, "  "+l)
		}
	}
	return lines
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       []string
	}{
		{"empty", ` { } `, nil},
		{"values keep their bytes", `{"a" : 9007199254740993, "\u0062":{ "x":1.10 },"":[ ]}`, []string{`a = 9007199254740993`, `b = { "x":1.10 }`, ` = [ ]`}},
		{"inner objects", `{"p": { "m":{"x":1},"k":{"m":{}} },"m":[{}],"k":{"m":{"y":2}}}`, []string{
			`p = { "m":{"x":1},"k":{"m":{}} }`, `  m = {"x":1}`, `    x = 1`, `  k = {"m":{}}`, `m = [{}]`, `k = {"m":{"y":2}}`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, mode := range []rawjson.Mode{rawjson.Strict, rawjson.Lenient} {
				o, err := rawjson.Split([]byte(tt.data), mode, "p", "m")
				if d := cmp.Diff(tt.want, show(o)); d != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
			}
		})
	}
}

func TestSplitRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, data      string
		strict, lenient error // nil: no error; io.EOF: some other error
	}{
		{"a name twice", `{"a":1,"a":2}`, rawjson.ErrDuplicateName, nil},
		{"a name twice, escaped", `{"a":1,"\u0061":2}`, rawjson.ErrDuplicateName, nil},
		{"a name twice, deep", `{"p":{"a":[{"b":1,"b":2}]}}`, rawjson.ErrDuplicateName, nil},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", io.EOF, nil},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", io.EOF, nil},
		{"lone surrogate", `{"a":"\ud800"}`, io.EOF, nil},
		{"a list", `[{"a":1}]`, rawjson.ErrNotObject, rawjson.ErrNotObject},
		{"null", `null`, rawjson.ErrNotObject, rawjson.ErrNotObject},
		{"nothing", ``, io.EOF, io.EOF},
		{"cut off", `{"p":{"a":1`, io.EOF, io.EOF},
		{"no JSON", `{'a':1}`, io.EOF, io.EOF},
		{"two objects", `{}{}`, io.EOF, io.EOF},
		{"followed by text", `{} x`, io.EOF, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for mode, want := range map[rawjson.Mode]error{rawjson.Strict: tt.strict, rawjson.Lenient: tt.lenient} {
				_, err := rawjson.Split([]byte(tt.data), mode, "p")
				if (err == nil) != (want == nil) || !errors.Is(want, io.EOF) && !errors.Is(err, want) {
					t.Errorf("strict %t: got %v, want %v", mode, err, want)
				}
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("strict %t: the error looks like a failed connection: %v", mode, err)
				}
			}
		})
	}
}

func TestObject(t *testing.T) {
	data := []byte(`{ "a" : 1, "b":2,"a":3 }`)
	o, err := rawjson.Split(data, rawjson.Lenient)
	require.OK(t, err)
	if got := o.Get("a"); string(got) != "3" || o.Get("c") != nil {
		t.Errorf("Get = %s, %s", got, o.Get("c"))
	}
	if !o.Set("a", []byte(`4`)) || o.Set("a", []byte(`4`)) {
		t.Error("Set does not report whether it changed something")
	}
	o.Add(`<"é`+"\xff", rawjson.Quote("x\n\u2028"))
	if o.Delete("c") {
		t.Error("Delete reports that it deleted an absent member")
	}
	want := `{"b":2,"a":4,"<\"é` + "\uFFFD" + `":"x\n` + "\u2028" + `"}`
	if d := cmp.Diff(want, string(o.Bytes())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := rawjson.Object(nil).Bytes(); string(got) != "{}" {
		t.Errorf("empty: %s", got)
	}
}

func TestSet(t *testing.T) {
	for _, tt := range []struct{ object, want string }{
		{`{ "n" : 1, "b":[ ]}`, `{ "n" : 5, "b":[ ]}`},
		{`{"n":{"n":1},"n":2}`, `{"n":5,"n":5}`},
		{` {"b":{"n":1} } `, ` {"b":{"n":1} ,"n":5} `},
		{`{ }`, `{ "n":5}`},
		{`[1]`, `[1]`},
	} {
		if got := rawjson.Set([]byte(tt.object), "n", []byte(`5`)); string(got) != tt.want {
			t.Errorf("Set(%s) = %s, want %s", tt.object, got, tt.want)
		}
	}
}

func TestElements(t *testing.T) {
	for in, want := range map[string][]string{
		` [ 1.0, {"a" :[2]} ,"\u00e9"]`: {"1.0", `{"a" :[2]}`, `"\u00e9"`}, //nolint:gocritic // white space is what is tested
		`[]`:                            nil, `[null,[]]`: {"null", "[]"},
	} {
		list, err := rawjson.Elements([]byte(in))
		var got []string
		for _, e := range list {
			got = append(got, string(e))
			if cap(e) != len(e) {
				t.Errorf("appending to an element of %s would write into it", in)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Elements(%s) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "[", "[1", "[1,", "[1 2]", "{}", "null", `"a"`, "[01]"} {
		if got, err := rawjson.Elements([]byte(in)); err == nil {
			t.Errorf("Elements(%s) = %q, want an error", in, got)
		}
	}
}

func TestEncode(t *testing.T) {
	if got, err := rawjson.Encode(map[string]any{"a": "<&>\n"}); string(got) != `{"a":"<&>\n"}` || err != nil {
		t.Errorf("Encode = %s, %v", got, err)
	}
	if got, err := rawjson.Encode(func() {}); err == nil {
		t.Errorf("Encode of a function = %s", got)
	}
}

func TestText(t *testing.T) {
	for value, want := range map[string]string{`"a\u00e9\n"`: "aé\n", `"\ud800"`: "\uFFFD", `5`: "", `null`: "", ``: ""} {
		if got := rawjson.Text([]byte(value)); got != want {
			t.Errorf("Text(%s) = %q, want %q", value, got, want)
		}
	}
}

// Split accepts what jsontext accepts, and returns the members that encoding/json reads. The
// written object has the same members when it is read again.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,{"b":2}]},"b":{"a":null}}`, `{"a":1,"a":2}`, "{\"a\xff\":\"\\ud800\"}", `[]`, ` { } `, `{"a":1}{`, `{"\u0061":"\""}`} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		for _, mode := range []rawjson.Mode{rawjson.Strict, rawjson.Lenient} {
			o, err := rawjson.Split(data, mode, "a", name)
			lenient := bool(!mode)
			valid := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(lenient), jsontext.AllowInvalidUTF8(lenient))
			if taken := valid && jsontext.Value(data).Kind() == '{'; taken != (err == nil) {
				t.Fatalf("Split(%q, strict %t) = %v; valid %t", data, mode, err, valid)
			}
			if err != nil {
				continue
			}
			again, err := rawjson.Split(o.Bytes(), mode, "a", name)
			if d := cmp.Diff(show(o), show(again)); d != "" || err != nil {
				t.Errorf("%q is written as %q: %v\n%s", data, o.Bytes(), err, d)
			}
			changed, err := rawjson.Split(rawjson.Set(data, name, []byte(`[0]`)), rawjson.Lenient)
			if got := changed.Get(rawjson.Text(rawjson.Quote(name))); err != nil || string(got) != `[0]` {
				t.Errorf("%q with %q set: %s, %v", data, name, got, err)
			}
			if mode == rawjson.Lenient {
				continue
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil || len(want) != len(o) {
				t.Fatalf("encoding/json reads %d members of %q, %v; Split %d", len(want), data, err, len(o))
			}
			for _, m := range o {
				if !bytes.Equal(want[m.Name], m.Value) || (m.Members != nil) != (m.Value[0] == '{' && len(bytes.Trim(m.Value, "{} \t\r\n")) > 0 && (m.Name == "a" || m.Name == name)) {
					t.Errorf("%q: %q is %s with members %v, encoding/json reads %s", data, m.Name, m.Value, m.Members, want[m.Name])
				}
			}
		}
	})
}

// FuzzAppendText compares AppendText with Encode.
func FuzzAppendText(f *testing.F) {
	for _, s := range []string{"", `a "b" \`, "\x00\b\f\n\r\t\x1f\x7f", "é検\u2028\u2029", "\xff\xed\xa0\x80", "\xe2\x80", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := rawjson.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := rawjson.AppendText([]byte("x"), s); string(got) != "x"+string(want) {
			t.Errorf("%q: %s, want x%s", s, got, want)
		}
		if got := rawjson.AppendText(nil, []byte(s)); string(got) != string(want) {
			t.Errorf("%q as bytes: %s, want %s", s, got, want)
		}
	})
}
