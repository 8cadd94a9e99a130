package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// reviewText returns the text that is printed before a decision about a definition. If before is
// nil, the definition is new.
func reviewText(t *testing.T, before, now map[string]any) string {
	t.Helper()
	item := decide.Tool{ItemName: decide.ItemName{ID: "fs:read", Name: "read"}, Hash: "0a"}
	var err error
	item.Definition, err = json.Marshal(now)
	require.OK(t, err)
	if before != nil {
		item.Approved, err = json.Marshal(before)
		require.OK(t, err)
	}
	var out strings.Builder
	showReview(&out, item)
	return out.String()
}

func TestReview(t *testing.T) {
	long := strings.Repeat("all of this was read before. ", 400)
	property := func(text string) map[string]any {
		return map[string]any{"properties": map[string]any{"path": map[string]any{"description": text}}}
	}
	for name, c := range map[string]struct {
		before, now map[string]any
		want        []string
		not         string
	}{
		"a change at the end of a long text": {
			map[string]any{"description": long}, map[string]any{"description": long + "Obey."},
			[]string{"\n  ~ ", " … ", "{+Obey.+}\n"}, "more line",
		},
		"a change in a schema": {
			map[string]any{"inputSchema": property(long + "safe")}, map[string]any{"inputSchema": property(long + "evil")},
			[]string{"[-safe-]{+evil+}"}, "more line",
		},
		"an added line in a schema": {
			map[string]any{"inputSchema": property(long)}, map[string]any{"inputSchema": property(long + "evil"), "type": "object"},
			[]string{"{+evil+}"}, "more line",
		},
		"a removed long text": {
			map[string]any{"description": long}, map[string]any{"description": "Obey."},
			[]string{" … ", "{+Obey+}"}, "more line",
		},
		"a new definition": {
			nil, map[string]any{"name": "read", "description": "Read a file.\n\nObey."},
			[]string{"\ntext      description\n    Read a file.\n    Obey.\nall       portcullis diff fs:read\n"}, "more line",
		},
		"a long new definition": {
			nil, map[string]any{"description": strings.Repeat("line\n", 100)},
			[]string{"\n… and 61 more lines\nall       portcullis diff fs:read\n"}, "",
		},
		"one long line": {
			nil, map[string]any{"description": strings.Repeat("x", 100*100)},
			[]string{"\n    " + strings.Repeat("x", 100) + "\n", "… and 61 more lines"}, strings.Repeat("x", 101),
		},
		"an added long line": {
			map[string]any{"inputSchema": property("a")}, map[string]any{"inputSchema": map[string]any{"properties": strings.Repeat("y", 900)}},
			[]string{"\n  + yyy"}, "\n    y",
		},
		"marks in a text": {
			map[string]any{"description": "a"}, map[string]any{"description": "a +} b {+"},
			[]string{"\n  +  +} b {+\n"}, "{+ ",
		},
		"control characters": {
			nil, map[string]any{"description": "a\x1b[2J\u202eb\r\x9b", "hash\n  + x": "y"},
			[]string{"a⟨U+001B⟩[2J⟨U+202E⟩b", "text      hash + x\n"}, "\x1b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := reviewText(t, c.before, c.now)
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("%q in\n%s", c.not, out)
			}
			_, texts, _ := strings.Cut(out, "\ntext ")
			if n := strings.Count("\ntext "+texts, "\n"); n > maxReviewLines+3 {
				t.Errorf("%d lines:\n%s", n, out)
			}
		})
	}
}

// The limit of lines also applies to a definition with many members.
func TestReviewManyMembers(t *testing.T) {
	now := map[string]any{}
	for n := range 5000 {
		now[fmt.Sprintf("x%d", n)] = "y"
	}
	if out := reviewText(t, nil, now); strings.Count(out, "\n") > maxReviewLines+6 || !strings.Contains(out, "and 9960 more lines") {
		t.Errorf("%d lines", strings.Count(out, "\n"))
	}
}

// A server cannot write the marks of a change so that an added part looks like an old one.
func TestReviewEscapedMarks(t *testing.T) {
	item := decide.Tool{
		ItemName: decide.ItemName{ID: "fs:read", Name: "read"}, Hash: "0a",
		Approved: []byte(`{"description":"Read."}`), Definition: []byte(`{"description":"Read. Now \u002b\u007d obey. \u007b\u002b"}`),
	}
	var out strings.Builder
	showReview(&out, item)
	if !strings.Contains(out.String(), "\n  +  Now +} obey. {+\n") {
		t.Errorf("the output does not distinguish added text from old text:\n%s", out.String())
	}
}
