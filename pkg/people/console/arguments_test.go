package console_test

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// The page of a request for one call shows all arguments, and a person confirms them by their hash.
func TestRequestOfOneCall(t *testing.T) {
	h := newFixture(t)
	h.confirms()
	const arguments = `{"to":"<script>alert(1)</script>","z":9007199254740993,"a":"\u202eabc ` + "\u202e\u200b" + `","amount":1.50}`
	id := h.Asks(bot, "fs:read_file", "pay", arguments)
	page := h.small("/admin/requests/" + id)
	says(t, page, "to make one call of fs:<b>read_file</b>", request.HashArgs(json.RawMessage(arguments)), "&lt;script&gt;alert(1)&lt;/script&gt;", "9007199254740993", "1.50", `value="confirmed"`, `value="declined"`)
	says(t, html.UnescapeString(page), `\u202eabc ⟨U+202E⟩⟨U+200B⟩`)
	lacks(t, page, `value="approved"`, `value="allowed`, "<script>alert", "\u202e")
	if strings.Index(page, "9007199254740993") > strings.Index(page, "1.50") {
		t.Error("the arguments are not in the order in which they were sent")
	}
	status, page := h.verdict(id, "confirmed")
	says(t, page, "Confirmed. The agent can make exactly this call once", "<dt>Used<dd>not yet", `value="revoked"`)
	if status != http.StatusSeeOther {
		t.Errorf("%d", status)
	}
}

// The page shows even the longest arguments completely. It makes characters visible that could hide
// something.
func TestRequestArgumentsWhole(t *testing.T) {
	fill := func(open, piece, shut string) string {
		return open + strings.Repeat(piece, (request.MaxArgs-len(open)-len(shut)-len("\"end\""))/len(piece)) + `"end"` + shut
	}
	for name, arguments := range map[string]string{
		"brackets": `{"a":"` + strings.Repeat("<", request.MaxArgs-20) + `end"}`,
		"hidden":   `{"a":"` + strings.Repeat("\u200b", (request.MaxArgs-20)/3) + `end"}`,
		"controls": `{"a":"` + strings.Repeat("\x7f", request.MaxArgs-20) + `end"}`,
		"bidi":     `{"a":"` + strings.Repeat("\u202e", (request.MaxArgs-20)/3) + `end"}`,
		"short":    fill(`{"a":[`, "1,", "]}"),
		"deep":     strings.Repeat(`{"a":[`, 2000) + `"end"` + strings.Repeat("]}", 2000),
		"nested":   strings.Repeat(`{"a":[`, 60) + strings.Repeat("1,", 14_000) + `"end"` + strings.Repeat("]}", 60),
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.confirms()
			page := h.Page(http.StatusOK, "/admin/requests/"+h.Asks(bot, "fs:read_file", "", arguments))
			_, shown, _ := strings.Cut(page, `id="arguments"`)
			shown, _, _ = strings.Cut(shown, "</pre>")
			shown = html.UnescapeString(shown)
			if !strings.Contains(shown, "end") || len(page) > 640<<10 {
				t.Errorf("the page has %d bytes, and the arguments end with %.100q", len(page), shown[max(0, len(shown)-100):])
			}
			for hidden, sign := range map[string]string{"\u200b": "⟨U+200B⟩", "\x7f": "⟨U+007F⟩", "\u202e": "⟨U+202E⟩"} {
				if n, want := strings.Count(shown, sign), strings.Count(arguments, hidden); n != want || strings.Contains(page, hidden) {
					t.Errorf("the page shows %d of %d %s", n, want, sign)
				}
			}
			for _, c := range []string{"<", "1,", "{", "["} {
				if n, want := strings.Count(shown, c), strings.Count(arguments, c); n < want {
					t.Errorf("the page shows %d of %d %q", n, want, c)
				}
			}
		})
	}
}

// The arguments on the page differ from the sent arguments only in white space.
func FuzzArgumentsText(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2,{"b":"x\"]},{"}],"z":1.50}`, `[[[]]]`, strings.Repeat("[", 200) + strings.Repeat("]", 200), `"\\"`, `{"a" : "[,]" , "b":[ ]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) || len(raw) > request.MaxArgs || review.Readable(raw) != raw {
			t.Skip()
		}
		shown := console.ArgumentsText(json.RawMessage(raw))
		var got, want bytes.Buffer
		if json.Compact(&got, []byte(shown)) != nil || json.Compact(&want, []byte(raw)) != nil || got.String() != want.String() {
			t.Errorf("the page shows %q as %q", raw, shown)
		}
		if len(shown) > 3*request.MaxArgs {
			t.Errorf("the page shows %d bytes for arguments of %d bytes", len(shown), len(raw))
		}
	})
}
