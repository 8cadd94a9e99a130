package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// tags writes a text in the tag characters that no font shows and every model reads.
func tags(s string) string { return strings.Map(func(r rune) rune { return 0xE0000 + r }, s) }

func TestReveal(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "Reads a file.\n\tThen\r\nstops.", "Reads a file.\n\tThen\r\nstops."},
		{"accents, other scripts", "Übergröße 获取当前日期，以上海 हिन्दी עברית", "Übergröße 获取当前日期，以上海 हिन्दी עברית"},
		{"spaces", "a\u00a0b\u3000c\u2009d", "a\u00a0b\u3000c\u2009d"},
		{"a carriage return alone", "a\rb", "a⟨U+000D⟩b"},
		{"control characters", "a\x00\x1b[31m\x7f\u0085", "a⟨U+0000⟩⟨U+001B⟩[31m⟨U+007F⟩⟨U+0085⟩"},
		{"zero width", "pay\u200bpal \u2060x \ufeffy", "pay⟨U+200B⟩pal ⟨U+2060⟩x ⟨U+FEFF⟩y"},
		{"a soft hyphen", "in\u00advisible", "in⟨U+00AD⟩visible"},
		{"characters that reverse the direction", "\u202egpj.exe\u202c \u2066x\u2069", "⟨U+202E⟩gpj.exe⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩"},
		{"tag characters", "hi" + tags("go"), "hi⟨U+E0067⟩⟨U+E006F⟩"},
		{"line separator", "a\u2028b", "a⟨U+2028⟩b"},
		{"fillers", "\u3164\u115f\u2800", "⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩"},
		{"private use", "\ue000", "⟨U+E000⟩"},
		{"more combining marks than a script needs", "x" + strings.Repeat("\u0310", 10) + "y\u0310 שָׁ", "x" + strings.Repeat("\u0310", 8) + "⟨U+0310⟩⟨U+0310⟩y\u0310 שָׁ"},
		{"not UTF-8", "a\xffb", "a\xffb"},

		{"emoji", "⚠️ 🚨 👩‍💻 👨‍👩‍👧‍👦 👍🏽 ❤️‍🔥 1️⃣ ‼️ ☎︎", "⚠️ 🚨 👩‍💻 👨‍👩‍👧‍👦 👍🏽 ❤️‍🔥 1️⃣ ‼️ ☎︎"},
		{"an emoji newer than the tables", "\U0001FAE9", "\U0001FAE9"},
		{"the flag of Wales", "🏴" + tags("gbwls\x7f") + "!", "🏴" + tags("gbwls\x7f") + "!"},
		{"an incomplete flag", "🏴" + tags("gb"), "🏴⟨U+E0067⟩⟨U+E0062⟩"},
		{"more tags after a flag", "🏴" + tags("gbwls\x7fx"), "🏴" + tags("gbwls\x7f") + "⟨U+E0078⟩"},
		{"a joiner in Persian", "می\u200cخواهم", "می\u200cخواهم"},
		{"a joiner in Hindi", "क्\u200dष", "क्\u200dष"},
		{"a joiner in English", "pass\u200dword \u200cx", "pass⟨U+200D⟩word ⟨U+200C⟩x"},
		{"a joiner after an emoji and before a word", "👩\u200dx", "👩⟨U+200D⟩x"},
		{"two joiners", "می\u200c\u200cخ", "می\u200c⟨U+200C⟩خ"},
		{"direction beside Hebrew", "\u200fעברית\u200e (x)", "\u200fעברית\u200e (x)"},
		{"direction in English", "a\u200eb", "a⟨U+200E⟩b"},
		{"selector of a Han character", "葛\U000E0100", "葛\U000E0100"},
		{"bytes in selectors", "😀\ufe0f\ufe01\U000E0100", "😀\ufe0f⟨U+FE01⟩⟨U+E0100⟩"},
		{"a selector after a letter", "a\ufe0f", "a⟨U+FE0F⟩"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text.Reveal(tt.in); got != tt.want {
				t.Errorf("Reveal(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// Reveal returns no hidden characters, and Hidden yields characters at their positions.
func FuzzReveal(f *testing.F) {
	f.Add("a\u202eb👩\u200d💻می\u200cخواهم" + tags("gbwls"))
	f.Fuzz(func(t *testing.T, s string) {
		last := -1
		for i, r := range text.Hidden(s) {
			if got, _ := utf8.DecodeRuneInString(s[i:]); got != r || i <= last {
				t.Fatalf("Hidden(%q) yields %d, %U after %d", s, i, r, last)
			}
			last = i
		}
		shown := text.Reveal(s)
		for i, r := range text.Hidden(shown) {
			t.Fatalf("Reveal(%q) = %q hides %U at %d", s, shown, r, i)
		}
	})
}

func BenchmarkReveal(b *testing.B) {
	s := strings.Repeat("Reads the file at the path. 读取文件。 ", 3000)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		text.Reveal(s)
	}
}

func TestBlank(t *testing.T) {
	for _, s := range []string{"", " \t\n", "\u200b\u2060", "\u3164\u2800", "\u00a0\u3000\u00ad", "\x00\x1b"} {
		if !text.Blank(s) {
			t.Errorf("Blank(%q) = false, want true", s)
		}
	}
	for _, s := range []string{".", "\u200bok", "ä", "⚠️"} {
		if text.Blank(s) {
			t.Errorf("Blank(%q) = true, want false", s)
		}
	}
}
