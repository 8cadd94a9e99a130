package secret

import (
	"errors"
	"strings"
)

// ErrUnclosed is the error for a text that begins a reference and does not end it.
var ErrUnclosed = errors.New("holds ${ without its }")

// Expand returns s with each reference ${kind:name} replaced by the text that the function value
// returns for "kind:name". It stops at the first error of that function.
func Expand(s string, value func(ref string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		ref, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", ErrUnclosed
		}
		v, err := value(ref)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		s = rest
	}
}

// Reference returns the reference if s is only a reference: ${kind:name}, or secretsmanager:name
// and ssm:name without the braces, which are hard to write in a CloudFormation template.
func Reference(s string) (ref string, ok bool) {
	if inner, braced := strings.CutPrefix(s, "${"); braced {
		return strings.CutSuffix(inner, "}")
	}
	return s, strings.HasPrefix(s, "secretsmanager:") || strings.HasPrefix(s, "ssm:")
}

// Check returns an error if the form of a reference is wrong.
func Check(ref string) error {
	kind, name, ok := strings.Cut(ref, ":")
	word := func(more string) bool {
		return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
		})
	}
	switch {
	case !ok:
		return errors.New("holds a ${…} without its kind; write ${env:NAME}, ${ssm:/name} or ${secretsmanager:name}")
	case kind == "env" && (!word("_") || name[0] >= '0' && name[0] <= '9'):
		return errors.New("holds ${env:…} without the name of a variable")
	case kind == "ssm" && !word("_.-/:"), kind == "secretsmanager" && !word("_.-/+=@:"):
		return errors.New("holds ${" + kind + ":…} without the name of a secret")
	case kind != "env" && kind != "ssm" && kind != "secretsmanager":
		return errors.New("holds a ${…} of an unknown kind; there are env, ssm and secretsmanager")
	}
	return nil
}
