package review_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

func TestPlainWords(t *testing.T) {
	long := strings.Repeat("far ", 100)
	for _, tt := range []struct{ name, before, now, want string }{
		{"nothing", "", "", ""},
		{"the same", "Reads a file.", "Reads a file.", "  Reads a file.\n"},
		{"one changed word", "Reads a file.", "Reads a folder.", "  Reads a\n- file\n+ folder\n  .\n"},
		{"text far from the change", long + "old" + " " + long, long + "new" + " " + long,
			"@@ 280 characters the same @@\n  " + strings.TrimSpace(long[280:]) + "\n- old\n+ new\n   " + strings.TrimSpace(long[:119]) + "\n@@ 281 characters the same @@\n"},
		{"lines", "a\nb\n", "a\nc\nd\n", "  a\n- b\n+ c\n+ d\n  \n"},
		{"one more blank", "a b", "a  b", "  a\n- ⟨U+0020⟩\n+ ⟨U+0020⟩⟨U+0020⟩\n  b\n"},
		{"one more line end", "a\nb", "a\n\nb", "  a\n+ ⟨U+000A⟩\n  b\n"},
		{"a hidden character", "pay pal", "pay \u200bpal", "  pay\n+ ⟨U+200B⟩\n  pal\n"},
		{"text that looks like a line of the output", "x", "x\n- y\n@@ 3 lines the same @@", "  x\n+\n+ - y\n+ @@ 3 lines the same @@\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := review.PlainWords(tt.before, tt.now); trimmed(got) != trimmed(tt.want) {
				t.Errorf("PlainWords(%q, %q) =\n%s\nwant\n%s", tt.before, tt.now, got, tt.want)
			}
		})
	}
}

// trimmed drops the blanks at the ends of lines, and empty lines.
func trimmed(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func TestPlainLines(t *testing.T) {
	many := strings.Repeat("x\n", 20)
	got := review.PlainLines(many+"old\n"+many, many+"new\n"+many)
	want := "@@ 17 lines the same @@\n  x\n  x\n  x\n- old\n+ new\n  x\n  x\n  x\n@@ 17 lines the same @@\n"
	if got != want {
		t.Errorf("PlainLines =\n%s\nwant\n%s", got, want)
	}
}

// For all texts, each line begins with a sign: "+", "-", "@@ " or two blanks.
func FuzzPlain(f *testing.F) {
	f.Add("a b c", "a\n@@ c\r\n")
	f.Add("", "\u202e")
	f.Fuzz(func(t *testing.T, before, now string) {
		for _, s := range []string{review.PlainWords(before, now), review.PlainLines(before, now)} {
			for line := range strings.Lines(s) {
				if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "@@ ") && line[0] != '+' && line[0] != '-' {
					t.Errorf("a line without a sign: %q", line)
				}
			}
		}
	})
}
