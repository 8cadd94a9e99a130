package text_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

func TestCursor(t *testing.T) {
	for _, entry := range [][]string{
		{"git:git_push"}, {"a", ""}, {"a", "b\x00c", "\xff\n"}, {"files:resource:file:///" + strings.Repeat("å", 1000)},
	} {
		cursor := text.NewCursor("tools", entry...)
		if got, ok := text.ReadCursor("tools", cursor, len(entry)); !ok || !slices.Equal(got, entry) {
			t.Errorf("%q is read as %q, %v", entry, got, ok)
		}
	}
	if got, ok := text.ReadCursor("tools", "", 2); !ok || !slices.Equal(got, []string{"", ""}) {
		t.Errorf("the first page is %q, %v", got, ok)
	}
}

func TestReadCursorRefuses(t *testing.T) {
	encode := func(b string) string { return base64.RawURLEncoding.EncodeToString([]byte(b)) }
	whole := text.NewCursor("tools", "a", "b")
	for name, cursor := range map[string]string{
		"a cursor of another list":       text.NewCursor("servers", "a", "b"),
		"a cursor of fewer parts":        text.NewCursor("tools", "a"),
		"a cursor of more parts":         text.NewCursor("tools", "a", "b", "c"),
		"an empty first part":            text.NewCursor("tools", "", "b"),
		"a part that is cut off":         encode("\x05tools\x01a\x02b"),
		"a huge part":                    encode("\x05tools\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01b"),
		"a length that overflows":        encode("\x05tools\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffb"),
		"a length with a needless byte":  encode("\x05tools\x81\x00a\x01b"),
		"bytes after the last part":      encode("\x05tools\x01a\x01bc"),
		"another text":                   "next page",
		"a line end":                     whole[:4] + "\n" + whole[4:],
		"padding":                        whole + "=",
		"a cursor of an earlier version": encode("tools\x00a"),
		"too long":                       text.NewCursor("tools", "a", strings.Repeat("b", 7<<10)),
	} {
		if got, ok := text.ReadCursor("tools", cursor, 2); ok {
			t.Errorf("%s: %q is read as %q", name, cursor, got)
		}
	}
}

// ReadCursor accepts only the empty text and texts that NewCursor returns.
func FuzzReadCursor(f *testing.F) {
	for _, seed := range []string{"", "x", text.NewCursor("tools", "a", "b"), text.NewCursor("tools", "a")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		entry, ok := text.ReadCursor("tools", cursor, 2)
		if ok && cursor != "" && (len(entry) != 2 || text.NewCursor("tools", entry...) != cursor) {
			t.Errorf("%q is read as %q", cursor, entry)
		}
	})
}
