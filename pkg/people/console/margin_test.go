package console

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

func TestWithoutMargin(t *testing.T) {
	for name, c := range map[string]struct{ before, now, wantBefore, want, margin string }{
		"no margin":         {"One.\nTwo.\nThree.", "A\nB\nC", "One.\nTwo.\nThree.", "A\nB\nC", ""},
		"one line":          {"One.", "    One.", "One.", "    One.", ""},
		"two lines":         {"", "One.\n    Two.", "", "One.\n    Two.", ""},
		"blanks":            {"", "A\n\n    B\n      C\n    ", "", "A\n\nB\n  C\n    ", "4 blanks"},
		"tabs":              {"A\n\tB\n\tC", "A\n\tB\n\t\tC", "A\nB\nC", "A\nB\n\tC", "1 tab"},
		"both":              {"", "A\r\n \tB\r\n \tC", "", "A\r\nB\r\nC", "the same blanks and tabs"},
		"less in one text":  {"A\n  B\n  C", "A\n    B\n    C", "A\nB\nC", "A\n  B\n  C", "2 blanks"},
		"none in one text":  {"A\nB\nC", "A\n  B\n  C", "A\nB\nC", "A\n  B\n  C", ""},
		"the first line":    {"  A\n  B\n  C", "A\n  B\n  C", "  A\nB\nC", "A\nB\nC", "2 blanks"},
		"a blank line":      {"A\n  B\n  \n  C", "A\n  B\n\n  C", "A\nB\n  \nC", "A\nB\n\nC", "2 blanks"},
		"blanks of Unicode": {"", "A\n\u00a0B\n\u00a0C", "", "A\n\u00a0B\n\u00a0C", ""},
		"an invisible line": {"", "A\n  B\n\u200b\n  C", "", "A\nB\n\u200b\nC", "2 blanks"},
	} {
		before, now, _, margin := withoutMargin(c.before, c.now, nil)
		want := []string{c.wantBefore, c.want, c.margin}
		if diff := cmp.Diff(want, []string{before, now, margin}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The places of findings move with the text.
func TestPlacesWithoutMargin(t *testing.T) {
	s := "One.\n    Two.\n    Three."
	at := func(text string) place {
		i := strings.Index(s, text)
		return place{i, i + len(text), text}
	}
	margin := place{5, 9, ""}
	_, now, found, _ := withoutMargin(
		s,
		s,
		[]place{at("One"), margin, at("Two.\n    Th"), at("ree")},
	)
	var got []string
	for _, p := range found {
		got = append(got, now[p.from:p.to])
	}
	if diff := cmp.Diff([]string{"One", "Two.\nTh", "ree"}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// Texts without the margin differ if and only if the whole texts differ, and the places of findings
// stay in the text.
func FuzzWithoutMargin(f *testing.F) {
	f.Add("One.\n  Two.\n  Three.", "One.\n  Two.\n \n  Three.", 3, 9)
	f.Add("", "a\n\t b\n\tc\r\n", 0, 2)
	f.Fuzz(func(t *testing.T, before, now string, from, to int) {
		from = max(0, min(from, len(now)))
		to = max(from, min(to, len(now)))
		b, n, found, _ := withoutMargin(before, now, []place{{from, to, ""}})
		if (b == n) != (before == now) {
			t.Errorf("%q and %q became %q and %q", before, now, b, n)
		}
		for _, p := range found {
			if p.from < 0 || p.to > len(n) || p.from > p.to {
				t.Errorf(
					"the place %d to %d of %q became %d to %d of %q",
					from,
					to,
					now,
					p.from,
					p.to,
					n,
				)
			}
		}
	})
}

// With only changes, a text has 3 lines or 200 characters on each side of a change.
func TestContext(t *testing.T) {
	line := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), 30) + "\n" }
	var was strings.Builder
	for n := range 40 {
		was.WriteString(line(n))
	}
	is := strings.Replace(was.String(), line(20), "changed\n", 1)
	none := textPair{
		title:  "Input schema",
		name:   "input",
		lines:  true,
		before: was.String(),
		now:    is,
		diff:   review.Lines,
	}
	var text strings.Builder
	for _, s := range blockOf(newTextLimit(), none, nil, false, true).Inline {
		text.WriteString(map[bool]string{true: "…", false: s.Text}[s.Op == "skip"])
	}
	want := "…" + line(
		17,
	) + line(
		18,
	) + line(
		19,
	) + line(
		20,
	) + "changed\n" + line(
		21,
	) + line(
		22,
	) + line(
		23,
	) + "…"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	words := strings.Repeat("wörd ", 200)
	b := blockOf(
		newTextLimit(),
		textPair{
			title:  "Title",
			name:   "title",
			before: words + "old" + words,
			now:    words + "new" + words,
			diff:   review.Words,
		},
		nil,
		false,
		true,
	)
	if b.Inline[0].Op != "skip" || b.Inline[len(b.Inline)-1].Op != "skip" {
		t.Fatalf("the ends are not left out: %+v", b.Inline)
	}
	for _, s := range []segment{b.Inline[1], b.Inline[len(b.Inline)-2]} {
		if n := len([]rune(s.Text)); n < contextCharacters-10 || n > contextCharacters+10 {
			t.Errorf("the context has %d characters: %q", n, s.Text)
		}
	}
}
