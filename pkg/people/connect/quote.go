package connect

import (
	"regexp"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// plainWord matches a word that no shell changes, in any position.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@,-]+$`)

// Shell returns a text as one word of a POSIX shell.
func Shell(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Export returns the line that sets an environment variable in a POSIX shell.
func Export(name, value string) string { return "export " + name + "=" + Shell(value) }

// encode returns s as a string of JSON.
func encode(s string) string {
	data, err := rawjson.Encode(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return string(data)
}
