// Package tool holds what a gateway knows of one tool: its id, its
// definition, its tier, its hash and its signature.
//
// A definition is kept as the bytes that the server sent. A gateway that parses
// and prints JSON again rounds large integers, drops fields that it does not know
// and reorders keys; then what a person approved, what the hash covers and
// what the agent reads are three different things.
package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxDirect is the longest name that every MCP client takes.
const maxDirect = 64

// An ID names one tool of one server. Its text form is "server:tool"; the
// first colon splits, so a server name has none.
type ID struct {
	Server string
	Name   string
}

// ParseID reads "server:tool". The first colon splits and neither part may be
// empty; nothing else is checked, so that an id that does not exist is
// looked up and not found, whatever is wrong with it.
func ParseID(s string) (ID, error) {
	server, name, ok := strings.Cut(s, ":")
	if !ok || server == "" || name == "" {
		return ID{}, fmt.Errorf("tool id %q is not of the form server:tool", s)
	}
	return ID{server, name}, nil
}

// String returns "server:tool".
func (id ID) String() string { return id.Server + ":" + id.Name }

// Compare orders ids by their text form.
func (id ID) Compare(other ID) int {
	if id.Server == other.Server {
		return strings.Compare(id.Name, other.Name)
	}
	return strings.Compare(id.String(), other.String())
}

// Direct returns the name that the tool has in direct mode: "server__tool". Some
// clients break on the whole list if one name is over 64 bytes, so a longer one is
// its first 55 bytes, "_", and the first 8 hex digits of the SHA-256 of "server:tool".
func (id ID) Direct() string {
	s := id.Server + "__" + id.Name
	if len(s) <= maxDirect {
		return s
	}
	sum := sha256.Sum256([]byte(id.String()))
	return s[:55] + "_" + hex.EncodeToString(sum[:4])
}

var (
	errEmptyName = errors.New("tool name is empty")
	errEmptyGlob = errors.New("glob is empty")
)

// maxName is the longest tool name, in bytes.
const maxName = 128

// ValidName returns an error if s is not 1 to 128 of [A-Za-z0-9_.-], or is "." or "..". A
// name is shown to agents before anybody approved it, so it may not carry a sentence; and
// it stands in the paths where people decide, out of which those two lead.
func ValidName(s string) error {
	switch {
	case s == "":
		return errEmptyName
	case len(s) > maxName:
		return fmt.Errorf("tool name %q… has %d bytes, at most %d are allowed", s[:32], len(s), maxName)
	case s == ".", s == "..":
		return fmt.Errorf("tool name %q would not survive in a URL's path", s)
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return fmt.Errorf("tool name %q holds a character that is not one of A-Z a-z 0-9 _ . -", s)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-'
}

// MatchGlob reports whether name matches pattern, in which "*" stands for any
// run of bytes, also an empty one; every other byte stands for itself.
// It takes time linear in the product of the lengths, whatever the pattern.
func MatchGlob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0 // the last "*", and where in name its run ends so far
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// ValidGlob returns an error if pattern is empty, longer than 128 bytes, or holds a
// byte that is neither "*" nor allowed in a name.
func ValidGlob(pattern string) error {
	switch {
	case pattern == "":
		return errEmptyGlob
	case len(pattern) > maxName:
		return fmt.Errorf("glob %q… has %d bytes, at most %d are allowed", pattern[:32], len(pattern), maxName)
	}
	for i := range len(pattern) {
		if c := pattern[i]; c != '*' && !nameByte(c) {
			return fmt.Errorf("glob %q holds a character that is not one of A-Z a-z 0-9 _ . - *", pattern)
		}
	}
	return nil
}
