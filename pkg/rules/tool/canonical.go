package tool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns raw in the canonical form of RFC 8785, with one difference: a number that a
// float64 cannot hold exactly stays unchanged, so that 9007199254740993 and 9007199254740992 stay
// two numbers.
//
// It refuses what RFC 8785 refuses: a duplicate key in an object at any depth, invalid UTF-8, a
// lone surrogate, anything but one JSON value.
func Canonical(raw []byte) ([]byte, error) { return canonical(raw) }

// KeptCanonical is [Canonical] for display. It does not check for duplicate keys, because the check
// takes much memory. If raw is not JSON, it returns raw unchanged.
func KeptCanonical(raw []byte) []byte {
	if out, err := canonical(raw, jsontext.AllowDuplicateNames(true)); err == nil {
		return out
	}
	return raw
}

func canonical(raw []byte, options ...jsontext.Options) ([]byte, error) {
	b, err := jsontext.AppendFormat(make([]byte, 0, len(raw)+len(raw)/8), raw, append(options, jsontext.ReorderRawObjects(true))...)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	var out []byte
	done := 0 // number of bytes of b that are already in out
	for i := 0; i < len(b); {
		end := i + 1
		switch c := b[i]; {
		case c == '"':
			for ; b[end] != '"'; end++ {
				if b[end] == '\\' {
					end++
				}
			}
			end++
		case c == '-' || '0' <= c && c <= '9':
			for end < len(b) && strings.IndexByte("+-.0123456789Ee", b[end]) >= 0 {
				end++
			}
			written := string(b[i:end])
			if n := canonicalNumber(written); n != written {
				if out == nil {
					out = make([]byte, 0, len(b)+len(b)/8)
				}
				out = append(append(out, b[done:i]...), n...)
				done = end
			}
		}
		i = end
	}
	if done == 0 {
		return b, nil
	}
	return append(out, b[done:]...), nil
}

// canonicalNumber returns the RFC 8785 form of a JSON number, or the number unchanged if that form
// has another value.
func canonicalNumber(written string) string {
	if len(written) < 16 && strings.Trim(written, "0123456789") == "" {
		return written // a float64 holds every whole number below 2⁵³
	}
	f, err := strconv.ParseFloat(written, 64)
	if err != nil {
		return written
	}
	canonical := "0"
	if f != 0 { // -0 becomes 0
		canonical = string(jsontext.AppendFloat(nil, f, 64))
	}
	// Both numbers round to the same float64. If they also have the same digits, they can differ
	// only by a power of ten. Then they are equal, because otherwise they would round differently.
	if digits(written) != digits(canonical) {
		return written
	}
	return canonical
}

// digits returns the digits of a JSON number without zeros at either end.
func digits(number string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return strings.Trim(whole+fraction, "-0")
}
