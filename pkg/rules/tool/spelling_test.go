package tool_test

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
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
	for _, other := range []string{"note://secret/", "note://secret//", "note://secret/?x", `note://secret%5C`} {
		if got := tool.PlainURIs(other); !slices.Contains(got, "note://secret") {
			t.Errorf("PlainURIs(%q) = %q, want one to be note://secret", other, got)
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

func TestNormalURI(t *testing.T) {
	for want, others := range map[string][]string{
		"note://secret": {
			"note://secret%20", "note://secret%2520", "note://secret%09", "note://secret%C2%A0", "note://%20secret", "note://secret.", "note://secret%2E%20",
			"note://secret%00", "note://sec%00ret", "note://secret%0D%0A", "note://secret%E2%80%8B", "note://secret%C2%AD", "note://secret%FF", "note://secret%7f",
			"note://secret;x", "note://secret;x=1;y", "note://secret%3Bx", "note://secret%253Bx",
			"note://ｓecret", "note://%EF%BD%93ecret", "note://ｓ\u200decret", "ｎote://secret",
		},
		"note:secret":                {"note:secret%20", "note:secret;x", "note:ｓecret"},
		"file:///a/secret":           {"file:///a;x/secret", "file:///a%20/secret", "file:///a./secret%20;x"},
		"file:///a//secret":          {"file:///a/..;x/secret", "file:///a/.../secret"},
		"file:///a/secret?v=1":       {"file:///a/secret?v=1%20", "file:///a/secret%00?v=1", "file:///a/secret?v=%EF%BC%91"},
		"file:///a%2Fsecret":         {"file:///a%20%2Fsecret", "file:///a%2Fsecret%20"},
		"note://get?name=secret&x=1": {"note://get?name=secret%20&x=1", "note://get?name=secret.&x=%001"},
		"https://example.com/x":      {"https://example.com./x", "https://example.com%20/x"},
	} {
		for _, other := range append(others, want) {
			if got := tool.NormalURI(other, false); got != want {
				t.Errorf("NormalURI(%q) = %q, want %q", other, got, want)
			}
		}
	}
	for _, same := range []string{
		"file:///a%20b/c%20d.txt", "file:///A/Secret", "file:///.hidden/..data/v1.2", "file:///a/../b/./c", "file:///a/%2e%2e/b", "x:?q=a;b&c=d%20e",
		"db://t/100%", "db://t/100%25", "urn:a:b", "https://user@example.com:8080/a?b#c", "{+any}", "a b", "", "x:", "résumé:///é%C3%A9", "file:///日本語/%E6%97%A5",
		"file:///R%26D%20%26%20more", `file:///a\b`, "mail:ann@example.com", "time://10:30",
	} {
		if got := tool.NormalURI(same, false); got != same {
			t.Errorf("NormalURI(%q) = %q, want the same", same, got)
		}
	}
	if got := tool.NormalURI("a:b;p=1/c%20", true); got != "a:b;p=1/c" {
		t.Errorf("with path parameters kept: %q", got)
	}
}

// NormalURI does not change a normal URI. So a client that uses the normal form is not refused
// again.
func FuzzNormalURI(f *testing.F) {
	for _, s := range []string{"file:///a%20%2F;x", "％41:％2525", "a:/..;/ｘ%2520", "x:?&%00;#", "..：／"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, uri string, keep bool) {
		once := tool.NormalURI(uri, keep)
		for range 8 {
			again := tool.NormalURI(once, keep)
			if again == once {
				return
			}
			once = again
		}
		t.Errorf("the normal form of %q is not stable: %q", uri, once)
	})
}
