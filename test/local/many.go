package local

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// maxCopies is how many copies of the 70 real servers [Many] makes. One config can contain 8,400
// servers. Further copies of tools go into the same servers.
const maxCopies = 120

const maxName = 128 // bytes of a tool's name

// Many returns n tools by the names of their servers, made from copies of the real tools (see
// [Tools]). In each copy after the first, the tools have other names, and every third word of a
// description is a random word from the real descriptions. So all tools differ, and words have the
// same frequency as in real tools. The same n gives the same tools.
func Many(t testing.TB, n int) map[string][]json.RawMessage {
	t.Helper()
	base := Tools(t)
	names := slices.Sorted(maps.Keys(base))
	var words []string
	for _, name := range names {
		for _, raw := range base[name] {
			words = append(words, strings.Fields(rawjson.Text(rawjson.Get(raw, "description")))...)
		}
	}
	out, left := map[string][]json.RawMessage{}, n
	for copied := 0; left > 0; copied++ {
		rng := rand.New(rand.NewPCG(uint64(copied), 1))
		for _, name := range names {
			tools := base[name][:min(left, len(base[name]))]
			left -= len(tools)
			if copied > 0 {
				tools = varied(rng, tools, words, copied)
			}
			if c := copied % maxCopies; c > 0 {
				name = fmt.Sprintf("%s-%d", name, c)
			}
			if len(tools) > 0 {
				out[name] = append(out[name], tools...)
			}
		}
	}
	return out
}

// varied returns a copy of tools with other names and words.
func varied(rng *rand.Rand, tools []json.RawMessage, words []string, copied int) []json.RawMessage {
	out := make([]json.RawMessage, len(tools))
	for i, raw := range tools {
		name := rawjson.Text(rawjson.Get(raw, "name"))
		suffix := fmt.Sprintf("_%s_%d", strings.Map(letter, strings.ToLower(words[rng.IntN(len(words))])), copied)
		name = name[:min(len(name), maxName-len(suffix))] + suffix
		text := strings.Fields(rawjson.Text(rawjson.Get(raw, "description")))
		for j := range text {
			if rng.IntN(3) == 0 {
				text[j] = words[rng.IntN(len(words))]
			}
		}
		raw = rawjson.Set(raw, "name", rawjson.Quote(name))
		out[i] = rawjson.Set(raw, "description", rawjson.Quote(strings.Join(text, " ")))
	}
	return out
}

// letter drops characters that a name may not contain.
func letter(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return -1
}
