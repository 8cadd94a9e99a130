// Package tool has the properties of a tool: its id, its definition with its hash, its tier, and
// the arguments that it requires as headers. Prompts and resources, the other items that a server
// lists, have ids and definitions of the same form.
//
// A definition is kept as the bytes that the server sent. A gateway that parses and prints JSON
// again rounds large integers, drops unknown fields and reorders keys. Then people would approve
// one definition, the hash would cover a second, and the agent would read a third.
package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// maxDirect is the longest name that every MCP client accepts.
const maxDirect = 64

// separator separates server and tool in a name of direct mode.
const separator = "__"

// Direct returns the name that the tool, or the prompt, has in direct mode: "server__tool". Some
// clients fail on the whole list if one name is over 64 bytes, so a longer name becomes its first
// 55 bytes, "_", and the first 8 hex digits of the SHA-256 of "server:tool".
func (id ID) Direct() string {
	s := id.Server + separator + id.Name
	if len(s) <= maxDirect {
		return s
	}
	sum := sha256.Sum256([]byte(id.String()))
	return s[:55] + "_" + hex.EncodeToString(sum[:4])
}

// ParseDirect returns the ids of tools whose name in direct mode may be name: one for each "__" in
// name. cut reports that name has the maximum length: it may also be the shortened name of an id.
func ParseDirect(name string) (ids []ID, cut bool) {
	for i := range name {
		if strings.HasPrefix(name[i:], separator) {
			ids = append(ids, ID{Server: name[:i], Name: name[i+len(separator):]})
		}
	}
	return ids, len(name) == maxDirect
}

// maxName is the longest name of a tool or a prompt, in bytes.
const maxName = 128

// ValidName returns an error if s is not 1 to 128 of [A-Za-z0-9_.-], or is "." or "..". Agents see
// a name before anybody approved it, so it must not contain a sentence. It is also part of
// the paths of people's pages, where "." and ".." would lead to other paths.
func ValidName(s string) error { return validName(Tool, s) }

func validName(k Kind, s string) error {
	if s == "." || s == ".." {
		return fmt.Errorf("%v name %q cannot be part of a URL's path", k, s)
	}
	return valid(k.String()+" name", s, "_.-")
}

// ValidGlob returns an error if pattern is empty, longer than 128 bytes, or contains a byte that
// is neither "*" nor allowed in a name.
func ValidGlob(pattern string) error { return valid("glob", pattern, "_.-*") }

// valid returns an error if s is not 1 to 128 letters, digits and bytes of marks.
func valid(what, s, marks string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", what)
	case len(s) > maxName:
		return fmt.Errorf("%s %s has %d bytes, at most %d are allowed", what, text.Quote(s, 32), len(s), maxName)
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r) {
			return fmt.Errorf("%s %q holds a character other than A-Z, a-z, 0-9 and %s", what, s, marks)
		}
	}
	return nil
}

// MatchGlob reports whether name matches pattern, in which "*" matches any bytes, even none; every
// other byte matches itself.
func MatchGlob(pattern, name string) bool {
	part, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, part)
	for star && ok {
		if part, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return ok && name == ""
}
