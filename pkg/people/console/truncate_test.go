package console

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// hostile has texts that become longer in readable form, or as HTML.
var hostile = map[string]string{
	"control":   strings.Repeat("\x01", 16_000),
	"plus":      strings.Repeat("+", 16_000),
	"quotes":    strings.Repeat(`"'<&`, 4_000),
	"bidi":      strings.Repeat("\u202e", 5_000),
	"two bytes": strings.Repeat("é", 8_000),
	"mixed":     strings.Repeat("a\u200b<+é\x02", 2_000),
	"plain":     strings.Repeat("word ", 3_200),
	"not UTF-8": strings.Repeat("\xff", 16_000),
	"only tags": strings.Repeat("\U000E0041", 4_000),
}

func TestExcerpt(t *testing.T) {
	for name, s := range hostile {
		t.Run(name, func(t *testing.T) {
			whole := review.Readable(s)
			for _, most := range []int{1, 3, 17, maxNote, maxText, len(whole)} {
				got := excerptOf(s, most, "whole")
				shown, n := strings.TrimSuffix(got.Text, "…"), utf8.RuneCountInString(got.Text)
				isCut := shown != got.Text && n == most && got.Rest == "whole"
				switch all := utf8.RuneCountInString(whole) <= most; {
				case all && got == (excerpt{Text: whole}):
				case !all && isCut && strings.HasPrefix(whole, shown):
				default:
					t.Errorf("at most %d characters: %.40q, at %q", most, shown, got.Rest)
				}
			}
		})
	}
}

// All texts of a page share the page's limit, and the page marks each truncated text.
func TestRoom(t *testing.T) {
	var runs []review.Run
	for range 2_000 {
		runs = append(runs, review.Run{Op: review.Equal, Text: strings.Repeat("same ", 200)},
			review.Run{Op: review.Delete, Text: "a "}, review.Run{Op: review.Insert, Text: "b "})
	}
	x := textPair{title: "Input schema", diff: func(string, string) []review.Run { return runs }}
	for _, side := range []bool{false, true} {
		limit, n := newTextLimit(), 0
		for range 2 {
			b := blockOf(limit, x, nil, side, true)
			for _, s := range append(b.Before, b.Inline...) {
				n += utf8.RuneCountInString(s.Text) + segmentCost
			}
			if !b.Cut {
				t.Error("the block is not marked as truncated")
			}
		}
		if most := map[bool]int{false: maxText, true: 2 * maxText}[side]; n > most+100*segmentCost {
			t.Errorf("side by side %v: %d characters, at most %d", side, n, most)
		}
	}
}
