//go:build unix

package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// shapes describes files of nearly 1 MiB with many parts of one kind. Between before and after, a
// file has part(0), part(1) and so on, while there is space.
var shapes = []struct {
	name, before, after string
	part                func(i int) string
	faulty              bool
}{
	{"many servers", `{"mcpServers": {`, `}}`, func(i int) string { return fmt.Sprintf(`"s%d": {"url": "http://s/"}`, i) }, false},
	{"many servers, one a line", "{\"mcpServers\": {\n", `}}`, func(i int) string { return fmt.Sprintf("\"s%d\": {\"url\": \"http://s/?key=x\"}\n", i) }, false},
	{"servers that clash", `{"mcpServers": {`, `}}`, func(i int) string {
		return fmt.Sprintf(`"s_%[1]d_": {"url": "http://s/"}, "s_%[1]d___x": {"url": "http://s/"}`, i)
	}, true},
	{"names of underscores", `{"mcpServers": {`, `}}`, func(i int) string { return fmt.Sprintf(`"%s%d": {}`, strings.Repeat("_", 120), i) }, true},
	{"one long name", `{"mcpServers": {"` + strings.Repeat("_", 900_000) + `": {`, `}}}`, func(i int) string { return fmt.Sprintf(`"k%d": 1`, i) }, true},
	{"many headers", `{"mcpServers": {"s": {"url": "http://s/", "headers": {`, `}}}}`, func(i int) string { return fmt.Sprintf(`"H-%d": "${env:A}"`, i) }, false},
	{"a long header", `{"mcpServers": {"s": {"url": "http://s/", "headers": {"A": "` + strings.Repeat("${env:A}", 100_000) + `"`, `}}}}`, func(int) string { return "\"B\": \"\"" }, true},
	{"credentials in clear", `{"mcpServers": {"s": {"url": "http://s/", "headers": {`, `}}}}`, func(i int) string { return fmt.Sprintf(`"Key-%d": "ü"`, i) }, false},
	{"many globs", `{"mcpServers": {"s": {"url": "http://s/", "disabled_tools": [`, `]}}}`, func(i int) string { return fmt.Sprintf(`"*%d*"`, i) }, false},
	{"many overrides", `{"mcpServers": {"s": {"url": "http://s/", "annotations": {`, `}}}}`, func(i int) string { return fmt.Sprintf(`"t%d": {"readOnlyHint": true}`, i) }, false},
	{"unknown keys", `{"mcpServers": {}, `, `}`, func(i int) string { return fmt.Sprintf(`"k%d": 1`, i) }, true},
	{"duplicate keys", `{"mcpServers": {}, `, `}`, func(int) string { return `"tools": {}` }, true},
	{"wrong types", `{"mcpServers": {`, `}}`, func(i int) string { return fmt.Sprintf(`"s%d": 1`, i) }, true},
	{"bad names", `{"mcpServers": {`, `}}`, func(i int) string { return fmt.Sprintf(`"ö %d": {}`, i) }, true},
	{"toolsets", `{"mcpServers": {"s": {"url": "http://s/"}}, "toolsets": {`, `}}`, func(i int) string { return fmt.Sprintf(`"t%d": ["s:*"]`, i) }, false},
	{"toolset entries", `{"mcpServers": {"s": {"url": "http://s/"}}, "toolsets": {"t": [`, `]}}`, func(i int) string { return fmt.Sprintf(`"s:t%d"`, i) }, false},
	{"entries of unknown servers", `{"mcpServers": {}, "tools": {"disabled": [`, `]}}`, func(i int) string { return fmt.Sprintf(`"s%d:*"`, i) }, true},
	{"unknown toolsets", `{"mcpServers": {}, "tools": {"toolsets": [`, `]}}`, func(i int) string { return fmt.Sprintf(`"t%d"`, i) }, true},
	{"deep nesting", `{"x": ` + strings.Repeat(`{"a":[`, 4_000) + `1`, strings.Repeat(`]}`, 4_000) + `}`, func(int) string { return "1" }, true},
	{"broken at the end", `{"mcpServers": {`, `}`, func(i int) string { return fmt.Sprintf(`"s%d": {"url": "http://s/"}`, i) }, true},
}

// many returns a file of the shape, of nearly size bytes.
func many(size int, before, after string, part func(int) string) []byte {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; ; i++ {
		p := part(i)
		if b.Len()+len(p)+len(after)+2 > size {
			break
		}
		if i > 0 || !strings.HasSuffix(strings.TrimSpace(before), "{") && !strings.HasSuffix(before, "[") && !strings.HasSuffix(before, ", ") {
			b.WriteString(",")
		}
		b.WriteString(p)
	}
	b.WriteString(after)
	return []byte(b.String())
}

// cpu returns how much processor time f takes.
func cpu(t testing.TB, f func()) time.Duration {
	t.Helper()
	before := local.OwnCPU(t)
	f()
	return local.OwnCPU(t) - before
}

// TestParseIsLinear checks that Parse needs at most 300 ms of processor time for the largest file
// with any content. On a slow or busy machine the limit is higher: eight times the time of
// encoding/json, or eight times the time of Parse for a quarter of the file.
func TestParseIsLinear(t *testing.T) {
	const most = 300 * time.Millisecond
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			data, quarter := many(maxSize, shape.before, shape.after, shape.part), many(maxSize/4, shape.before, shape.after, shape.part)
			least := func(f func()) time.Duration {
				least := cpu(t, f)
				for n := 1; n < 3 && least > most; n++ {
					least = min(least, cpu(t, f))
				}
				return least
			}
			inProportion := func(what string, f func([]byte)) {
				t.Helper()
				took := least(func() { f(data) })
				t.Logf("%s: %d bytes: %v", what, len(data), took)
				if took <= most || raceDetector {
					return
				}
				var v any
				limit := 8 * max(cpu(t, func() { _ = json.Unmarshal(data, &v) }), cpu(t, func() { f(quarter) })) // some of the files are broken
				if took = min(took, least(func() { f(data) })); took > limit {
					t.Errorf("%s: %d bytes take %v of the processor, want no more than %v", what, len(data), took, limit)
				}
			}
			inProportion("Parse", func(data []byte) {
				if _, err := Parse(data); (err != nil) != shape.faulty {
					t.Fatalf("%d bytes: Parse = %.200v", len(data), err)
				}
			})
			inProportion("NewLocator", func(data []byte) { NewLocator(data) })
		})
	}
}
