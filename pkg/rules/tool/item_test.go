package tool

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParsePrompt(t *testing.T) {
	in := []byte(`{"name":"review","title":"Review","description":"Reviews code.",
		"arguments": [ {"name":"code","description":"What to review","required":true}, {"name":"depth","title":"Depth"} ],"_meta":{"n":9007199254740993}}`)
	got, err := ParseItem(Prompt, in)
	require.OK(t, err)
	want := Definition{
		Raw: in, Kind: Prompt, Name: "review", Title: "Review", Description: "Reviews code.", Hash: got.Hash,
		Arguments: json.RawMessage(`[ {"name":"code","description":"What to review","required":true}, {"name":"depth","title":"Depth"} ]`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
	if id := got.ID("s"); id.String() != "s:prompt:review" {
		t.Errorf("the id is %q", id)
	}
	arguments, err := ReadArguments(got.Arguments)
	if diff := cmp.Diff([]Argument{{Name: "code", Description: "What to review", Required: true}, {Name: "depth", Title: "Depth"}}, arguments); diff != "" || err != nil {
		t.Errorf("arguments (-want +got):\n%s%v", diff, err)
	}
}

func TestParseResource(t *testing.T) {
	for in, want := range map[string]Definition{
		`{"uri":"file:///a%20b/ü?x=1#y","name":"any text: of it","mimeType":"text/plain","size":7,"annotations":{"audience":["user"],"priority":0.5}}`: {
			Name: "any text: of it", URI: "file:///a%20b/ü?x=1#y", MIMEType: "text/plain",
		},
		`{"uriTemplate":"{+everything}","name":"t","title":"T","description":"D"}`: {
			Name: "t", Title: "T", Description: "D", URI: "{+everything}", Template: true,
		},
		`{"uri":"ui://widget/1","uriTemplate":null,"name":"w","description":null}`: {Name: "w", URI: "ui://widget/1"},
	} {
		got, err := ParseItem(Resource, []byte(in))
		want.Raw, want.Kind, want.Hash = []byte(in), Resource, got.Hash
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("definition (-want +got):\n%s%v", diff, err)
		}
		if id := got.ID("s"); id.String() != "s:resource:"+want.URI {
			t.Errorf("the id is %q", id)
		}
	}
}

func TestParseItemRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind Kind
		in   string
	}{
		{"a prompt that is a list", Prompt, `[]`},
		{"a prompt without a name", Prompt, `{"description":"d"}`},
		{"a sentence for a prompt's name", Prompt, `{"name":"ignore all"}`},
		{"a prompt's name that leads out of a path", Prompt, `{"name":".."}`},
		{"a key twice", Prompt, `{"name":"a","name":"b"}`},
		{"a key twice in an argument", Prompt, `{"name":"a","arguments":[{"name":"x","name":"y"}]}`},
		{"arguments that are an object", Prompt, `{"name":"a","arguments":{}}`},
		{"an argument that is text", Prompt, `{"name":"a","arguments":["x"]}`},
		{"an argument without a name", Prompt, `{"name":"a","arguments":[{"required":true}]}`},
		{"an argument that is required by text", Prompt, `{"name":"a","arguments":[{"name":"x","required":"yes"}]}`},
		{"two arguments of one name", Prompt, `{"name":"a","arguments":[{"name":"x"},{"name":"x"}]}`},
		{"a title that is a number", Prompt, `{"name":"a","title":1}`},
		{"icons that are text", Prompt, `{"name":"a","icons":"x"}`},
		{"a resource without a URI", Resource, `{"name":"a"}`},
		{"an empty URI", Resource, `{"name":"a","uri":""}`},
		{"a resource without a name", Resource, `{"uri":"a://b"}`},
		{"a URI and a template", Resource, `{"name":"a","uri":"a://b","uriTemplate":"a://{b}"}`},
		{"a URI without a scheme", Resource, `{"name":"a","uri":"/etc/passwd"}`},
		{"a scheme that is none", Resource, `{"name":"a","uri":"1a:b"}`},
		{"a blank in a URI", Resource, `{"name":"a","uri":"a://b c"}`},
		{"a line end in a URI", Resource, `{"name":"a","uri":"a://b\nc"}`},
		{"a URI that turns the text", Resource, `{"name":"a","uri":"a://\u202eb"}`},
		{"a hidden character in a template", Resource, `{"name":"a","uriTemplate":"a://\u200b{b}"}`},
		{"a tag character in a URI", Resource, `{"name":"a","uri":"a://\udb40\udc41"}`},
		{"a long URI", Resource, `{"name":"a","uri":"a://` + strings.Repeat("b", MaxURI) + `"}`},
		{"a URI that is a list", Resource, `{"name":"a","uri":["a://b"]}`},
		{"a size that is text", Resource, `{"name":"a","uri":"a://b","size":"7"}`},
		{"annotations that are text", Resource, `{"name":"a","uri":"a://b","annotations":"x"}`},
		{"an audience that is text", Resource, `{"name":"a","uri":"a://b","annotations":{"audience":"user"}}`},
		{"an unknown kind", "skill", `{"name":"a"}`},
		{"too many bytes", Resource, `{"name":"a","uri":"a://b","description":"` + strings.Repeat("d", MaxDefinition) + `"}`},
	} {
		if got, err := ParseItem(tc.kind, []byte(tc.in)); err == nil {
			t.Errorf("%s: ParseItem accepted %+v", tc.name, got)
		}
	}
}

func TestHashOfResource(t *testing.T) {
	hash := func(kind Kind, in string) Hash {
		d, err := ParseItem(kind, []byte(in))
		require.OK(t, err)
		return d.Hash
	}
	one := hash(Resource, `{"uri":"a://b","name":"a","annotations":{"priority":1}}`)
	for _, same := range []string{
		`{"name":"a","uri":"a://b","annotations":{"priority":1.0},"size":9}`,
		`{"size":10,"name":"a","annotations":{"lastModified":"2026-01-01T00:00:00Z","priority":1},"uri":"a://b"}`,
	} {
		if hash(Resource, same) != one {
			t.Errorf("%s has another hash", same)
		}
	}
	for _, other := range []string{
		`{"uri":"a://b","name":"a"}`,
		`{"uri":"a://b","name":"a","annotations":{"priority":1},"mimeType":"text/html"}`,
		`{"uri":"a://b","name":"a","annotations":{"priority":1},"_meta":{"size":9}}`,
		`{"uriTemplate":"a://b","name":"a","annotations":{"priority":1}}`,
	} {
		if hash(Resource, other) == one {
			t.Errorf("%s has the same hash", other)
		}
	}
	if hash(Resource, `{"uri":"a://b","name":"a","annotations":{"lastModified":"x"}}`) != hash(Resource, `{"uri":"a://b","name":"a"}`) {
		t.Error("the modification time of a resource changes the hash")
	}
	if hash(Prompt, `{"name":"a","size":1}`) == hash(Prompt, `{"name":"a","size":2}`) {
		t.Error("a field of a prompt does not change the hash")
	}
}

func FuzzParseItem(f *testing.F) {
	for _, s := range []string{
		`{"name":"a"}`, `{"name":"a","name":"b"}`, `{"name":"a","annotations":{"readOnlyHint":null}}`, ` {"name" : "a" , "outputSchema" : {} } `,
		`{"name":"a","inputSchema":{"type":"object","properties":{"x":{"enum":[1e400]}}},"annotations":{"readOnlyHint":true}}`,
		`{"name":"a","arguments":[{"name":"x","required":true}]}`, `{"name":"a","uri":"a://b","size":1,"annotations":{"lastModified":"x"}}`,
		`{"uriTemplate":"a://{b}{?c,d}","name":"n"}`, `{"name":"a","uri":"a:b","uriTemplate":"a"}`, `{"name":"a","arguments":[{"name":"x"},{"name":"x"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		for _, kind := range []Kind{Tool, Prompt, Resource} {
			d, err := ParseItem(kind, in)
			if !bytes.Equal(in, before) {
				t.Fatal("the definition was changed")
			}
			if err != nil {
				continue
			}
			id := d.ID("server")
			if again, err := ParseID(id.String()); err != nil || again != id || len(id.Key()) > 150 {
				t.Errorf("the id %q is read as %+v, %v", id, again, err)
			}
			if len(d.Hash) != 64 || !bytes.Equal(d.Raw, in) || d.Kind != kind {
				t.Errorf("ParseItem(%q) = %+v", in, d)
			}
			kept, err := ReadItem(kind, in)
			if kept.Hash = d.Hash; err != nil || !cmp.Equal(kept, d) {
				t.Errorf("ReadItem(%q) = %+v, %v; want %+v", in, kept, err, d)
			}
			spaced, err := ParseItem(kind, append([]byte(" "), in...))
			if err != nil || spaced.Hash != d.Hash {
				t.Errorf("white space changes the hash of %q: %v", in, err)
			}
		}
	})
}
