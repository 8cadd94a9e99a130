package console

import (
	"bytes"
	"html/template"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// hostile are texts of which a page makes more bytes than they have.
var hostile = map[string]string{
	"control":    strings.Repeat("\x01", 16_000),
	"plus":       strings.Repeat("+", 16_000),
	"quotes":     strings.Repeat(`"'<&`, 4_000),
	"bidi":       strings.Repeat("\u202e", 5_000),
	"two bytes":  strings.Repeat("é", 8_000),
	"mixed":      strings.Repeat("a\u200b<+é\x02", 2_000),
	"plain":      strings.Repeat("word ", 3_200),
	"not UTF-8":  strings.Repeat("\xff", 16_000),
	"tags alone": strings.Repeat("\U000E0041", 4_000),
}

// written returns how many bytes of HTML a template makes of a text.
func written(t *testing.T, s string) int {
	t.Helper()
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse("<p>{{.}}</p>")).Execute(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Len() - len("<p></p>")
}

func TestFit(t *testing.T) {
	for name, s := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, room := range []int{0, 3, 4, 17, 480, 36 << 10} {
				got := truncate(s, room)
				if n := written(t, got); n > max(room, len("…")) {
					t.Errorf("%d bytes in a room of %d", n, room)
				}
				if room == 36<<10 && name == "plain" && got != s {
					t.Error("it is cut, and there is room")
				}
				if strings.HasSuffix(got, "…") == (written(t, review.Readable(s)) <= room) {
					t.Errorf("room %d: cut and marked otherwise than it should be: %.40q", room, got)
				}
			}
		})
	}
	if got := truncate("Zürich<", 8); got != "Zür…" && got != "Züri…" {
		t.Errorf("%q", got)
	}
}

// A page shows at most so many bytes of a text, whatever its characters take.
func TestRoom(t *testing.T) {
	for name, s := range hostile {
		m := budget{maxText, maxHTML}
		shown, all := m.take(s)
		n := written(t, shown)
		if n > maxHTML || utf8.ValidString(s) && n < maxText/2 {
			t.Errorf("%s: %d bytes are shown, at most %d fit", name, n, maxHTML)
		}
		if all == (m == budget{}) {
			t.Errorf("%s: all of it is %v, left %+v", name, all, m)
		}
	}
}

// The sign that something is left out takes room as well.
func TestRoomOfSigns(t *testing.T) {
	var runs []review.Run
	for range 2_000 {
		runs = append(runs, review.Run{Op: review.Equal, Text: strings.Repeat("same ", 200)}, review.Run{Op: review.Delete, Text: "a "}, review.Run{Op: review.Insert, Text: "b "})
	}
	for _, side := range []bool{false, true} {
		b := blockOf(newBudgets(side), "Description", runs, nil, side, true)
		n := 0
		for _, s := range append(b.Before, b.Inline...) {
			n += segmentHTML + written(t, s.Text)
		}
		if n > maxHTML || !b.Cut {
			t.Errorf("side by side %v: %d bytes in %d segments, cut %v", side, n, len(b.Before)+len(b.Inline), b.Cut)
		}
	}
}
