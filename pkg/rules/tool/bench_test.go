package tool

import (
	"testing"
)

const benchmarked = `{"name":"search_issues","description":"Search issues. Takes the query syntax of the site.","inputSchema":{"type":"object",
"properties":{"query":{"type":"string","description":"What to search for"},"state":{"type":"string","enum":["open","closed","all"]},
"labels":{"type":"array","items":{"type":"string"}},"page":{"type":"integer","default":1},"sort":{"anyOf":[{"enum":["created","updated"]},{"type":"null"}]},
"range":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}}}},"required":["query"],"additionalProperties":false},
"annotations":{"title":"Search","readOnlyHint":true,"openWorldHint":true}}`

func BenchmarkParseDefinition(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseItem(Tool, []byte(benchmarked)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadDefinition(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadItem(Tool, []byte(benchmarked)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical([]byte(benchmarked)); err != nil {
			b.Fatal(err)
		}
	}
}
