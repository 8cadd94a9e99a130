package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Limits of redacted arguments.
const (
	maxRedacted = 4 << 10 // bytes; only the ends of open objects and lists may follow
	maxDepth    = 8
	maxElements = 4  // of one list
	maxKey      = 32 // characters of a name
	maxDigits   = 4  // digits of a name; ids and keys have more
)

// Redact returns the shape of arguments without their values: the length of a text, the type of a
// number or boolean. It keeps a name that looks like the name of a parameter, and replaces other
// names by their length, because names can be data. It marks each place where it leaves out long,
// deep or numerous parts. If there are no arguments, it returns nil.
func Redact(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return nil
	}
	r := redactor{in: jsontext.NewDecoder(bytes.NewReader(arguments), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := r.value(0); err != nil {
		return rawjson.Quote("‹not JSON›")
	}
	return r.out.Bytes()
}

type redactor struct {
	in  *jsontext.Decoder
	out bytes.Buffer
}

// full reports whether the output is at its limit.
func (r *redactor) full() bool { return r.out.Len() >= maxRedacted }

func (r *redactor) say(s string) { r.out.Write(rawjson.Quote("‹" + s + "›")) }

// value writes the redacted form of the next value.
func (r *redactor) value(depth int) error {
	kind := r.in.PeekKind()
	if open := kind == '{' || kind == '['; open && depth < maxDepth && !r.full() {
		return r.nested(kind, depth)
	}
	v, err := r.in.ReadValue()
	if err != nil {
		return err
	}
	switch kind {
	case '"':
		r.say(text.Count(length(v), "char"))
	case '0':
		r.say("number")
	case 't', 'f':
		r.say("boolean")
	case '{':
		r.say("object")
	case '[':
		r.say("list")
	default:
		r.out.WriteString("null")
	}
	return nil
}

// nested writes an object or a list.
func (r *redactor) nested(kind jsontext.Kind, depth int) error {
	if _, err := r.in.ReadToken(); err != nil {
		return err
	}
	closes := map[jsontext.Kind]jsontext.Kind{'{': '}', '[': ']'}[kind]
	r.out.WriteByte(byte(kind))
	n, left := 0, 0
	for k := r.in.PeekKind(); k != closes; k = r.in.PeekKind() {
		if k == 0 {
			_, err := r.in.ReadToken()
			return err
		}
		var name jsontext.Value
		if kind == '{' {
			v, err := r.in.ReadValue()
			if err != nil {
				return err
			}
			name = v.Clone()
		}
		if n++; r.full() || kind == '[' && n > maxElements {
			left++
			if err := r.in.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if n > 1 {
			r.out.WriteByte(',')
		}
		if kind == '{' {
			r.out.Write(rawjson.Quote(keptName(name, n)))
			r.out.WriteByte(':')
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
	}
	r.more(kind, n, left)
	_, err := r.in.ReadToken()
	return err
}

// more ends an object or a list with n elements. Before the closing bracket it says how many
// elements are left out, if any.
func (r *redactor) more(kind jsontext.Kind, n, left int) {
	if left > 0 {
		if n > left {
			r.out.WriteByte(',')
		}
		if r.say(text.Count(left, "more value")); kind == '{' {
			r.out.WriteString(":null")
		}
	}
	r.out.WriteByte(map[jsontext.Kind]byte{'{': '}', '[': ']'}[kind])
}

// keptName returns the n-th name of an object, or a replacement.
func keptName(quoted jsontext.Value, n int) string {
	name := rawjson.Text(json.RawMessage(quoted))
	digits := 0
	plain := strings.TrimFunc(name, func(c rune) bool {
		if '0' <= c && c <= '9' {
			digits++
		}
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}) == ""
	if plain && name != "" && len(name) <= maxKey && digits <= maxDigits {
		return name
	}
	return "‹name " + strconv.Itoa(n) + ", " + text.Count(length(quoted), "char") + "›"
}

// length returns how many characters a JSON string has.
func length(quoted jsontext.Value) int {
	return utf8.RuneCountInString(rawjson.Text(json.RawMessage(quoted)))
}
