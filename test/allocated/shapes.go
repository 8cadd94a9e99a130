package allocated

import (
	"fmt"
	"strings"
)

// A Shape is two definitions of a tool, before and after a change, that are costly to show.
type Shape struct{ Before, Now string }

// Shapes returns pairs of definitions of about size bytes each. Each key says what makes the pair
// costly.
func Shapes(size int) map[string]Shape {
	schema := func(inner string) string {
		return `{"name":"costly","inputSchema":{"type":"object","x":` + inner + `}}`
	}
	properties := func(inner string) string {
		return `{"name":"costly","inputSchema":{"type":"object","properties":{` + inner + `}}}`
	}
	description := func(inner string) string {
		return `{"name":"costly","description":"` + inner + `","inputSchema":{"type":"object"}}`
	}
	short, longer := list(size, func(int) string { return "1" }), list(size, func(int) string { return "2" })
	trees := func(value string) string {
		depth := min(size/4, 4_000)
		return list(size, func(i int) string { return fmt.Sprintf(`"%x":%s`, i, nested(depth, value)) })
	}
	return map[string]Shape{
		"nested on one side":  {schema("[]"), schema(nested(min(size/2, 9_400), ""))},
		"nested on both":      {schema(nested(min(size/2, 9_400), "1")), schema(nested(min(size/2, 9_399), "2"))},
		"nested objects":      {properties(trees("")), properties(trees("{}"))},
		"many short lines":    {schema("[" + short + "]"), schema("[" + longer + "]")},
		"short lines in deep": {schema(nested(190, short)), schema(nested(190, longer))},
		"one long text":       {schema(`"` + strings.Repeat("a", size) + `"`), schema(`"` + strings.Repeat("b", size) + `"`)},
		"many names": {
			properties(list(size, func(i int) string { return fmt.Sprintf(`"%x":1`, i) })),
			properties(list(size, func(i int) string { return fmt.Sprintf(`"%x":2`, i) })),
		},
		"one word again and again": {description(strings.Repeat("a ", size/2)), description(strings.Repeat("b ", size/2))},
		"single characters":        {description(strings.Repeat("a,b,", size/4)), description(strings.Repeat("c,b,", size/4))},
		"many words": {
			description(list(size, func(i int) string { return fmt.Sprint(i) })),
			description(list(size, func(i int) string { return fmt.Sprint(3 * i) })),
		},
		"characters that do not show": {description(""), description(strings.Repeat("\x7f", size))},
		"empty lines":                 {description(""), description(strings.Repeat(`\n`, size/2))},
	}
}

// nested returns a value inside nested arrays.
func nested(levels int, inner string) string {
	return strings.Repeat("[", levels) + inner + strings.Repeat("]", levels)
}

// list returns values with commas between them, about size bytes in all.
func list(size int, value func(i int) string) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := value(i)
		if b.Len()+len(next)+1 > size {
			return b.String()
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(next)
	}
}
