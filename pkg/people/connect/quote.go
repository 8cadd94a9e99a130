package connect

import (
	"regexp"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// plainWord is what no shell reads as anything but itself, wherever it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@,-]+$`)

// shell returns a command line of which a POSIX shell makes exactly these words.
func shell(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; !plainWord.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// Shell returns a text as one word of a POSIX shell.
func Shell(word string) string { return shell(word) }

// Export returns the line that sets an environment variable in a POSIX shell.
func Export(name, value string) string { return "export " + name + "=" + shell(value) }

// compact returns v as JSON in one line.
func compact(v any) string { return string(encode(v)) }

// pretty returns v as a JSON file.
func pretty(v any) string { return rawjson.Indent(encode(v), "", "  ") + "\n" }

func encode(v any) []byte {
	data, err := rawjson.Encode(v)
	if err != nil {
		panic(err) // plain strings always have a JSON form
	}
	return data
}

// tomlString returns s as a basic string of TOML, which has the escapes of JSON's, and one character
// more that needs one.
func tomlString(s string) string { return strings.ReplaceAll(compact(s), "\x7f", `\u007f`) }
