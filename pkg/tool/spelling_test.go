package tool_test

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

func TestPlainURIs(t *testing.T) {
	const secret = "file:///secret/a.txt"
	for _, other := range []string{
		"FILE:///secret/a.txt", "file:///%73ecret/a.txt", "file:///%2573ecret/a.txt", "file:///pub/../secret/a.txt", "file:///pub/%2e%2E/secret/a.txt",
		"file:///pub%2F..%2fsecret/a.txt", "file:///./secret//a.txt", "file:////secret/a.txt", "file://localhost/secret/a.txt", "file://LocalHost/secret/a.txt",
		`file:///secret\a.txt`, "file:///secret/a.txt#part", "file:///secret/a.txt%23part", "file:///secret/a.txt/", "file:///../secret/a.txt", "file:///secret/a.txt?x=1",
	} {
		if got := tool.PlainURIs(other); !slices.Contains(got, secret) {
			t.Errorf("PlainURIs(%q) = %q, want one to be %q", other, got, secret)
		}
	}
	for _, plain := range []string{secret, "x:y", "urn:a:b", "https://example.com", "https://example.com/a?b=c/../d", "db://t/100%", "a", "{+x}", "", "x:"} {
		for _, got := range tool.PlainURIs(plain) {
			if got != plain && tool.PlainURI(plain) != plain {
				t.Errorf("PlainURIs(%q) = %q", plain, got)
			}
		}
	}
	if got := tool.PlainURIs("https://Example.com/a?b=c"); !slices.Equal(got, []string{"https://example.com/a?b=c", "https://example.com/a"}) {
		t.Errorf("with a query: %q", got)
	}
}

func FuzzPlainURI(f *testing.F) {
	for _, s := range []string{"file:///a/%2e%2e/b", "%", "%%%", "x:", "://", "a:b?c#d", "%25252525252525", "x:\\\\..\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if got := tool.PlainURI(uri); len(got) > 3*len(uri)+len("//") { // lower case can be longer
			t.Errorf("PlainURI(%q) = %q is too long", uri, got)
		}
		if n := len(tool.PlainURIs(uri)); n > 2 {
			t.Errorf("PlainURIs(%q): %d", uri, n)
		}
	})
}
