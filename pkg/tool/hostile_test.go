package tool_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// wideSchema is a schema of the greatest length that is taken: 190 parameters that all
// refer to one object of 11,000 members.
func wideSchema() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"$defs":{"x":{"properties":{`)
	for i := range 11_000 {
		fmt.Fprintf(&b, `"k%05d":1,`, i)
	}
	b.WriteString(`"last":1}}},"properties":{`)
	for i := range 190 {
		fmt.Fprintf(&b, `"p%d":{"$ref":"#/$defs/x"},`, i)
	}
	b.WriteString(`"q":{}}}`)
	return json.RawMessage(b.String())
}

// longPause is a description of the greatest length whose first sentence never begins.
func longPause() string {
	return strings.Repeat("a b ", 199) + "c:" + strings.Repeat("\n", tool.MaxDefinition)
}

// A sync makes the signature of every tool again: one server's schemas must not keep it
// from the others. What is allocated stands for the work, which no clock can measure here.
func TestSignatureOfManyReferencesToAWideObjectIsCutShort(t *testing.T) {
	schema := wideSchema()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tool.Signature(schema, nil)
	runtime.ReadMemStats(&after)
	const most = 200 << 20
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%d bytes were allocated, at most %d are the schema's worth", n, most)
	}
	if sig, lossy := tool.Signature(schema, nil); !lossy || len(sig) > 200 {
		t.Errorf("Signature = %q, lossy %v", sig, lossy)
	}
}

func TestEmptyLinesAfterAnIntroductionAreSkipped(t *testing.T) {
	for description, want := range map[string]string{
		"Returns:\n\n \n\t\n the page. More.": "Returns: the page.",
		"Returns:" + strings.Repeat("\n", 9):  "Returns:",
		"\n\n\nReturns:\n\nit":                "Returns: it",
	} {
		if got := tool.FirstSentence(description); got != want {
			t.Errorf("FirstSentence(%q) = %q, want %q", description, got, want)
		}
	}
}

// BenchmarkHostile reads what takes longest within the limits of a definition. A search
// reads up to 60 descriptions, a sync every schema; the aim is 100 ms an op.
func BenchmarkHostile(b *testing.B) {
	b.Run("schema", func(b *testing.B) {
		schema := wideSchema()
		for b.Loop() {
			tool.Signature(schema, nil)
		}
	})
	b.Run("description", func(b *testing.B) {
		description := longPause()
		for b.Loop() {
			tool.FirstSentence(description)
		}
	})
}
