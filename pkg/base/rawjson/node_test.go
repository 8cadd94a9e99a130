package rawjson_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParse(t *testing.T) {
	const doc = ` {"b": [1.50, "\u00e4" , null, {}], "a" : {"x":true, "x":false}, "": -0 } `
	root, err := rawjson.Parse([]byte(doc))
	require.OK(t, err)
	for ref, want := range map[string]string{
		"#": strings.TrimSpace(doc), "#/b": `[1.50, "\u00e4" , null, {}]`, "#/b/0": "1.50", "#/b/1": `"\u00e4"`, "#/b/2": "null", "#/b/3": "{}",
		"#/a": `{"x":true, "x":false}`, "#/a/x": "false", "#/": "-0",
	} {
		if n := root.Pointer(ref); n == nil || string(n.Raw) != want {
			t.Errorf("%s is %+v, want %s", ref, n, want)
		}
	}
	for _, ref := range []string{"", "b", "#b", "#/c", "#/b/4", "#/b/x", "#/a/x/y", "#/%zz"} {
		if n := root.Pointer(ref); n != nil {
			t.Errorf("%s is %s, want nothing", ref, n.Raw)
		}
	}
	if got := root.List("b")[1].Text + root.List("b")[0].Text; got != "ä1.50" {
		t.Errorf("texts are %q", got)
	}
}

func TestParsePositions(t *testing.T) {
	const doc = "\n{ \"a\" :\n [true, {\"b\":\"x\"}]}"
	root, err := rawjson.Parse([]byte(doc))
	require.OK(t, err)
	a := root.Get("a")
	b := a.Kids[1].Get("b")
	got := []int{root.Offset, a.NameOffset, a.Offset, a.Kids[0].Offset, a.Kids[1].Offset, b.NameOffset, b.Offset}
	if want := []int{1, 3, 10, 11, 17, 18, 22}; !slices.Equal(got, want) {
		t.Errorf("positions are %d, want %d", got, want)
	}
}

func TestParseUTF8(t *testing.T) {
	const doc = "{\"a\":\"\xff\"}"
	if n, err := rawjson.Parse([]byte(doc)); err != nil || n.TextOf("a") != "\ufffd" {
		t.Errorf("Parse = %+v, %v", n, err)
	}
	if _, err := rawjson.ParseUTF8([]byte(doc)); err == nil {
		t.Error("ParseUTF8 accepts invalid UTF-8")
	}
}

func TestParseDepth(t *testing.T) {
	doc := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	n, err := rawjson.Parse([]byte(doc))
	require.OK(t, err)
	depth := 0
	for ; n.Array() && len(n.Kids) > 0; depth++ {
		n = n.Kids[0]
	}
	if n.Kind != 0 || depth < 200 || len(n.Raw) != len(doc)-2*depth {
		t.Errorf("the node at depth %d is of kind %q and has %d bytes", depth, n.Kind, len(n.Raw))
	}
}

// Every node has the JSON text at its offset, and the kind of that text.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}],"c":true}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		root, err := rawjson.Parse(doc)
		if err != nil {
			return
		}
		var check func(n *rawjson.Node)
		check = func(n *rawjson.Node) {
			if !json.Valid(n.Raw) && json.Valid(doc) || n.Kind != 0 && rune(n.Raw[0]) != rune(n.Kind) && n.Kind != '0' {
				t.Fatalf("a node of kind %q is %q", n.Kind, n.Raw)
			}
			if n.Object() && len(n.Keys) != len(n.Kids) {
				t.Fatalf("%d keys and %d values", len(n.Keys), len(n.Kids))
			}
			if !bytes.HasPrefix(doc[n.Offset:], n.Raw) {
				t.Fatalf("%q is not at %d", n.Raw, n.Offset)
			}
			for name, kid := range n.All() {
				var got string
				at := bytes.TrimLeft(doc[kid.NameOffset:kid.Offset], " \t\r\n")
				quoted := bytes.TrimRight(at, ": \t\r\n")
				if json.Unmarshal(quoted, &got) != nil || got != name {
					t.Fatalf("the name %q is at %d: %q", name, kid.NameOffset, at)
				}
			}
			for _, kid := range n.Kids {
				check(kid)
			}
		}
		check(root)
	})
}

// A value that exceeds the limit of nodes is one node without a kind. Its siblings are parsed.
func TestParseBounded(t *testing.T) {
	long := `[0` + strings.Repeat(",1", 1000) + `]`
	doc := `{"a":` + long + `,"b":{"c":[1,2]},"d":` + long + `,"e":"x"}`
	n, err := rawjson.ParseBounded([]byte(doc), 100)
	require.OK(t, err)
	a, d := n.Get("a"), n.Get("d")
	if a.Kind != 0 || a.Kids != nil || string(a.Raw) != long || d.Kind != 0 || string(d.Raw) != long {
		t.Errorf("nodes above the limit = %+v and %+v", a, d)
	}
	if len(n.Get("b").List("c")) != 2 || n.TextOf("e") != "x" || string(n.Raw) != doc {
		t.Errorf("value between the long lists = %s", n.Raw)
	}
	if n, err := rawjson.ParseBounded([]byte(doc), 3); err != nil || n.Kind != 0 || string(n.Raw) != doc {
		t.Errorf("with 3 nodes the document is %+v, %v", n, err)
	}
	if _, err := rawjson.ParseBounded([]byte(`{"a":[1,2,3,],"b"`), 2); err == nil {
		t.Error("ParseBounded accepts invalid JSON above the limit")
	}
}
