package signature

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// plain is an example of a text by a caller who does not know the rules.
const plain = "example"

// text returns the type of a string: its format, or its bounds if a plain text would violate them.
func (r *renderer) text(s *rawjson.Node) string {
	format := s.TextOf("format")
	if isFormat(format) {
		return format
	}
	if r.optional > 0 {
		return "string"
	}
	if pattern := s.TextOf("pattern"); pattern != "" {
		re, err := regexp.Compile(pattern)
		if err == nil && re.MatchString(plain) {
			return "string"
		}
		shown := "/" + strings.ReplaceAll(strings.ReplaceAll(pattern, `\/`, `/`), `/`, `\/`) + "/"
		if err == nil && utf8.RuneCountInString(shown) <= maxLiteral && isOneWord(shown) {
			return shown
		}
		return r.lose("string").text
	}
	return r.within("string", len(plain), s.Get("minLength"), s.Get("maxLength"))
}

// isFormat reports whether a format describes how a text looks.
func isFormat(name string) bool {
	switch name {
	case "date", "date-time", "time", "duration", "email", "uri", "url", "uri-reference", "uuid",
		"hostname", "ipv4", "ipv6":
		return true
	}
	return false
}

// isOneWord reports whether s is printable, without blanks and quotes, so that it cannot be a
// sentence.
func isOneWord(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == '\'' }) < 0
}

// number returns the type of a number, with its bounds if 1 violates them.
func (r *renderer) number(kind string, s *rawjson.Node) string {
	if r.optional > 0 {
		return kind
	}
	step, is := numeric(s.Get("multipleOf"))
	r.hide(is && math.Mod(1, step) != 0)
	for _, key := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		n, is := numeric(s.Get(key))
		r.hide(is && (key == "exclusiveMinimum" && n >= 1 || key == "exclusiveMaximum" && n <= 1))
	}
	return r.within(kind, 1, s.Get("minimum"), s.Get("maximum"))
}

// within returns the type with its bounds, such as "string{8..20}", if a plain value violates
// them.
func (r *renderer) within(kind string, value int, least, most *rawjson.Node) string {
	low, hasLow := numeric(least)
	high, hasHigh := numeric(most)
	if (!hasLow || low <= float64(value)) && (!hasHigh || high >= float64(value)) {
		return kind
	}
	text := kind + "{"
	if hasLow {
		text += least.Text
	}
	if text += ".."; hasHigh {
		text += most.Text
	}
	if len(text) > maxLiteral {
		return r.lose(kind).text
	}
	return text + "}"
}

func numeric(s *rawjson.Node) (float64, bool) {
	if s == nil || s.Kind != '0' {
		return 0, false
	}
	n, err := strconv.ParseFloat(s.Text, 64)
	return n, err == nil
}
