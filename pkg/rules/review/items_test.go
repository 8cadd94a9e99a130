package review_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each row has the rest of the old and of the new definition, after the name or URI, and the items
// that the summary must have.
func TestSummarizeItems(t *testing.T) {
	const prompt, resource = `{"name":"greet"`, `{"uri":"docs://a","name":"a"`
	for _, tt := range []struct {
		name        string
		kind        tool.Kind
		before, now string
		want        []string
	}{
		{"nothing", tool.Prompt, `,"arguments":[{"name":"who"}]}`, `,"arguments":[{"name":"who"}]}`, nil},
		{"an optional argument added", tool.Prompt, `}`, `,"arguments":[{"name":"who","description":"a name"}]}`, []string{`+argument who | optional, "a name" | new power`}},
		{"a required argument added", tool.Prompt, `,"arguments":[]}`, `,"arguments":[{"name":"a b","required":true}]}`, []string{`+argument "a b" | required | new power`}},
		{"an argument removed", tool.Prompt, `,"arguments":[{"name":"x"},{"name":"y"}]}`, `,"arguments":[{"name":"y"}]}`, []string{`-argument x | optional | `}},
		{"an argument becomes required", tool.Prompt, `,"arguments":[{"name":"x"}]}`, `,"arguments":[{"name":"x","required":true}]}`, []string{`+required x | required now | `}},
		{"an argument becomes optional", tool.Prompt, `,"arguments":[{"name":"x","required":true}]}`, `,"arguments":[{"name":"x","required":false}]}`, []string{`-required x | optional now | may be left out now`}},
		{"an optional argument gets required: false", tool.Prompt, `,"arguments":[{"name":"x"}]}`, `,"arguments":[{"name":"x","required":false}]}`, []string{`+required x | false | not judged`}},
		{"the description of an argument", tool.Prompt, `,"arguments":[{"name":"x","description":"a user"}]}`, `,"arguments":[{"name":"x","description":"a root user"}]}`, []string{`~description x | +1 word | `}},
		{"the order of the arguments", tool.Prompt, `,"arguments":[{"name":"x"},{"name":"y"}]}`, `,"arguments":[{"name":"y"},{"name":"x"}]}`, []string{`~arguments | [{"name":"x"},{"name":"y"}] → [{"name":"y"},{"name":"x"}] | `}},
		{"an empty list of arguments added", tool.Prompt, `}`, `,"arguments":[]}`, []string{`+arguments | [] | `}},
		{"an unknown member", tool.Prompt, `,"arguments":[{"name":"x"}]}`, `,"arguments":[{"name":"x","role":"system"}]}`, []string{`+role x | "system" | not judged`}},
		{"the MIME type of a resource", tool.Resource, `,"mimeType":"text/plain"}`, `,"mimeType":"text/html"}`, []string{`~mimeType | "text/plain" → "text/html" | `}},
		{"the audience of a resource", tool.Resource, `,"annotations":{"audience":["user"]}}`, `,"annotations":{"audience":["assistant"]}}`, []string{`~annotation audience | ["user"] → ["assistant"] | `}},
		{"the description of a resource", tool.Resource, `,"description":"old"}`, `,"description":"old news"}`, []string{`~description | +1 word | `}},
		{"arguments of a resource", tool.Resource, `}`, `,"arguments":[{"name":"x"}]}`, []string{`+arguments | [{"name":"x"}] | `}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := prompt
			if tt.kind == tool.Resource {
				head = resource
			}
			before, err := tool.ParseItem(tt.kind, []byte(head+tt.before))
			require.OK(t, err)
			now, err := tool.ParseItem(tt.kind, []byte(head+tt.now))
			require.OK(t, err)
			if diff := cmp.Diff(tt.want, items(review.Summarize(before, now))); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutline(t *testing.T) {
	for raw, tt := range map[string]struct {
		kind tool.Kind
		want string
	}{
		`{"name":"x","inputSchema":{"type":"object","properties":{"a":{}}}}`: {tool.Tool, "1 parameter"},
		`{"name":"x"}`: {tool.Prompt, "0 arguments"},
		`{"name":"x","arguments":[{"name":"a"},{"name":"b"}]}`:        {tool.Prompt, "2 arguments"},
		`{"uri":"docs://a","name":"a","mimeType":"text/plain\u200b"}`: {tool.Resource, "text/plain⟨U+200B⟩"},
		`{"uri":"docs://a","name":"a"}`:                               {tool.Resource, "of no stated type"},
	} {
		d, err := tool.ParseItem(tt.kind, []byte(raw))
		require.OK(t, err)
		if got := review.Outline(d); got != tt.want {
			t.Errorf("Outline(%s) = %q, want %q", raw, got, tt.want)
		}
	}
}
