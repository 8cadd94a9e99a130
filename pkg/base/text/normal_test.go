package text_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

func TestNormal(t *testing.T) {
	for s, want := range map[string]string{
		"":                           "",
		"a b.txt":                    "a b.txt",
		"ｓｅｃｒｅｔ":                     "secret",
		"ﬁle":                        "file",
		"u\u0308ber":                 "über",
		"a\x00b\nc\x7f":              "abc",
		"a\u200bb":                   "ab",
		"se\u00adcret":               "secret",
		"a\xffb":                     "ab",
		"a\ufffdb":                   "a\ufffdb",
		"re\x00\u0301sume\u0301":     "résumé",
		"日本語":                        "日本語",
		"\U0001F469\u200d\U0001F52C": "\U0001F469\u200d\U0001F52C", // one emoji with a joiner
	} {
		if got := text.Normal(s); got != want {
			t.Errorf("Normal(%q) = %q, want %q", s, got, want)
		}
	}
}

func FuzzNormal(f *testing.F) {
	for _, s := range []string{"ｓ\x00ecret", "e\u200b\u0301", "\xc3\x00\xa9", "¨", "\u0340\u0345"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := text.Normal(s)
		if again := text.Normal(once); again != once {
			t.Errorf("Normal of %q is %q, and of that %q", s, once, again)
		}
	})
}
