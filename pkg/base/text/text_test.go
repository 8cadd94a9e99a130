package text_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		n        int
		want     string
	}{
		{"short", "abc", 3, "abc"},
		{"long", "abcd", 3, "ab…"},
		{"characters are counted, not bytes", "工具工", 3, "工具工"},
		{"cut at a character", "工具工具", 3, "工具…"},
		{"unprintable characters", "a\nb\x00c\u202e", 9, "a\uFFFDb\uFFFDc\uFFFD"},
		{"no UTF-8", "a\xffb", 9, "a\uFFFDb"},
		{"empty", "", 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text.Clip(tt.in, tt.n); got != tt.want {
				t.Errorf("Clip(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"abc": `"abc"`, "a\nb": `"a\nb"`, "abcdefghi": `"abcdefg…"`, `a"b`: `"a\"b"`, "\xff": `"` + "\uFFFD" + `"`,
	} {
		if got := text.Quote(in, 8); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	if got := text.Line(" a\n\tb\x00\xff  c\u202e "); got != "a b c" {
		t.Errorf("Line = %q", got)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("a\xff工具\n", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(1, n%100)
		got := text.Clip(s, n)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > n || strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("Clip(%q, %d) = %q", s, n, got)
		}
	})
}

func TestIsPlain(t *testing.T) {
	for s, want := range map[string]bool{
		"read": true, "https://example.com/a?b=c#d": true, "!~": true,
		"": false, "a b": false, "a\"b": false, `a\b`: false, "a\n": false, "a\x7f": false, "é": false,
	} {
		if text.IsPlain(s) != want {
			t.Errorf("%q: %t", s, !want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 servers", 1: "1 server", 2: "2 servers"} {
		if got := text.Count(n, "server"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestList(t *testing.T) {
	for _, c := range []struct {
		names []string
		most  int
		want  string
	}{
		{nil, 3, ""},
		{[]string{"a"}, 3, "a"},
		{[]string{"a", "b", "c"}, 3, "a, b, c"},
		{[]string{"a", "b", "c"}, 1, "a and 2 more"},
		{[]string{"a\nb", strings.Repeat("x", 200)}, 2, "a\uFFFDb, " + strings.Repeat("x", 127) + "…"},
	} {
		if got := text.List(c.names, c.most); got != c.want {
			t.Errorf("List(%q, %d) = %q, want %q", c.names, c.most, got, c.want)
		}
	}
}

func TestMinutes(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 minutes", 1: "1 minute", 59: "59 minutes", 60: "1 hour", 90: "90 minutes", 480: "8 hours", 1440: "1 day", 1500: "25 hours", 10080: "7 days", 43200: "30 days",
	} {
		if got := text.Minutes(n); got != want {
			t.Errorf("Minutes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestAgoAndIn(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		-time.Hour: {"just now", "in 1 minute"}, 59 * time.Second: {"just now", "in 1 minute"}, time.Minute: {"1 minute ago", "in 1 minute"},
		3*time.Minute + time.Second: {"3 minutes ago", "in 4 minutes"}, time.Hour: {"1 hour ago", "in 1 hour"}, 24 * time.Hour: {"24 hours ago", "in 24 hours"}, 72 * time.Hour: {"3 days ago", "in 3 days"},
	} {
		if ago, in := text.Ago(d), text.In(d); ago != want[0] || in != want[1] {
			t.Errorf("%v: %q and %q, want %q", d, ago, in, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"hash", "hash", 0}, {"", "hash", 4}, {"hash", "", 4}, {"hsh", "hash", 1}, {"hassh", "hash", 1}, {"hush", "hash", 1}, {"kitten", "sitting", 3},
	} {
		if got := text.Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
