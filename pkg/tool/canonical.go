package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

var errNotJSON = errors.New("not one valid JSON value")

// CanonicalJSON returns raw in the canonical form of RFC 8785, with one
// difference: a number that would come out with another value, because a float64
// cannot hold it, stays as it is written, so that 9007199254740993 and
// 9007199254740992 stay two numbers.
//
// It refuses what RFC 8785 refuses: a key that stands twice in one object at any
// depth, invalid UTF-8, a lone surrogate, anything but one JSON value.
func CanonicalJSON(raw []byte) ([]byte, error) {
	// The library's own parser is lenient in places where this one is not.
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	masked, changed := mask(raw)
	out, err := jcs.Transform(masked)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	if !changed {
		return out, nil
	}
	return unmask(out), nil
}

// The library rounds every number to a float64. Where it would change a value, the
// number goes through it as a string; so that no string of the document can be
// taken for a number on the way back, each string and each such number is marked in
// its first byte. Keys are marked too, with one common mark, which keeps their order.
const (
	markString = 's'
	markNumber = 'n'
)

// mask returns raw with every string and every inexact number marked, or raw itself and
// false if it has no such number. raw is valid JSON.
func mask(raw []byte) ([]byte, bool) {
	var out bytes.Buffer
	inexact := false
	for i := 0; i < len(raw); {
		end := tokenEnd(raw, i)
		token := raw[i:end]
		switch c := raw[i]; {
		case c == '"':
			out.WriteByte('"')
			out.WriteByte(markString)
			out.Write(token[1:])
		case startsNumber(c) && !exact(string(token)):
			inexact = true
			out.WriteByte('"')
			out.WriteByte(markNumber)
			out.Write(token)
			out.WriteByte('"')
		default:
			out.Write(token)
		}
		i = end
	}
	if !inexact {
		return raw, false
	}
	return out.Bytes(), true
}

// unmask undoes mask.
func unmask(canonical []byte) []byte {
	out := make([]byte, 0, len(canonical))
	for i := 0; i < len(canonical); {
		end := tokenEnd(canonical, i)
		token := canonical[i:end]
		switch {
		case token[0] != '"':
			out = append(out, token...)
		case token[1] == markNumber:
			out = append(out, token[2:len(token)-1]...)
		default:
			out = append(append(out, '"'), token[2:]...)
		}
		i = end
	}
	return out
}

func startsNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// tokenEnd returns where the string or number that begins at i ends; any other
// byte is a token of its own. raw is valid JSON.
func tokenEnd(raw []byte, i int) int {
	switch c := raw[i]; {
	case c == '"':
		for i++; raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		return i + 1
	case startsNumber(c):
		for i < len(raw) && strings.IndexByte("+-.0123456789Ee", raw[i]) >= 0 {
			i++
		}
		return i
	}
	return i + 1
}

// exact reports whether the RFC 8785 form of a JSON number has the value
// that is written.
func exact(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	short, err := jcs.NumberToJSON(f)
	if err != nil {
		return false
	}
	if short == number {
		return true
	}
	a, okA := decimalOf(number)
	b, okB := decimalOf(short)
	return okA && okB && a == b
}

// A decimal is the value digits·10^exponent; digits have no zero at either end, and
// zero is the zero decimal.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// maxExponent bounds the exponents that decimalOf takes; a float64 ends far below it.
const maxExponent = 1 << 30

// decimalOf reads a JSON number. It returns false for an exponent out of all range.
func decimalOf(number string) (decimal, bool) {
	var d decimal
	mantissa, exponent := number, ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	if exponent != "" {
		e, err := strconv.Atoi(exponent)
		if err != nil || e > maxExponent || e < -maxExponent {
			return decimal{}, false
		}
		d.exponent = e
	}
	mantissa, d.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exponent -= len(fraction)
	all := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(all, "0")
	d.exponent += len(all) - len(d.digits)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}
