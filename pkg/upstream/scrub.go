package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// minEchoed is the shortest secret that is removed from a result, in bytes. Shorter texts occur in
// results by accident.
const minEchoed = 8

// A scrubber removes the credentials of one server from the server's messages, because some tools
// show the headers of their call. Its zero value removes nothing.
//
// It finds a secret as plain text, with URL escapes, and in unbroken base64 of both alphabets,
// alone or inside a longer text. It also finds all of these forms in JSON within JSON. In base64,
// one character on each side stays, because it also encodes bits of the text next to the secret.
type scrubber struct {
	secrets []string // its input
	forms   []string // encodings of the secrets
	any     prefilter
}

// newScrubber returns a scrubber for results. If a secret contains another secret, the scrubber
// removes the shorter secret.
func newScrubber(secrets []string) *scrubber {
	return scrubberOf(secrets, func(secret string) bool {
		return len(secret) >= minEchoed && !slices.ContainsFunc(secrets, func(part string) bool {
			return len(part) >= minEchoed && len(part) < len(secret) && strings.Contains(secret, part)
		})
	})
}

// newRedactor returns a scrubber for errors, which removes every text of values.
func newRedactor(values []string) *scrubber {
	return scrubberOf(values, func(value string) bool { return len(value) >= minSecret })
}

func scrubberOf(secrets []string, counts func(string) bool) *scrubber {
	s := &scrubber{secrets: slices.Clone(secrets)}
	for _, secret := range secrets {
		if counts(secret) {
			s.forms = append(s.forms, encodings(secret)...)
		}
	}
	slices.Sort(s.forms)
	s.forms = slices.Compact(s.forms)
	s.any = newPrefilter(s.forms)
	return s
}

// encodings returns the encodings of a secret in a text.
func encodings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if len(secret) < minEchoed { // its base64 would match by accident
		return all
	}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), secret...))
		if (before+len(secret))%3 != 0 {
			text = text[:len(text)-1] // the last character also encodes bits of what follows
		}
		text = text[[]int{0, 2, 3}[before]:]
		all = append(all, text, strings.NewReplacer("+", "-", "/", "_").Replace(text))
	}
	return all
}

// clean returns valid JSON without the secrets. Strings without secrets keep their bytes. If raw
// has no secrets, clean returns raw itself. A number is never a secret.
func (s *scrubber) clean(raw json.RawMessage) json.RawMessage {
	if !s.any.mayHold(raw) { // most messages contain no secret, and cost only this check
		return raw
	}
	var out json.RawMessage
	done := 0 // bytes of raw that are already in out
	for at := 0; ; {
		from := bytes.IndexByte(raw[at:], '"')
		if from < 0 {
			break
		}
		from += at + 1
		to := from
		for ; raw[to] != '"'; to++ {
			if raw[to] == '\\' {
				to++
			}
		}
		at = to + 1
		if !s.any.mayHold(raw[from:to]) {
			continue
		}
		for _, span := range s.spans(raw[from:to], 1) {
			out = append(append(out, raw[done:from+span[0]]...), secretMark...)
			done = from + span[1]
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// text returns a plain text without the secrets.
func (s *scrubber) text(t string) string {
	if !s.any.mayHold([]byte(t)) {
		return t
	}
	var out strings.Builder
	done := 0
	for _, span := range s.spans([]byte(t), 0) {
		out.WriteString(t[done:span[0]])
		out.WriteString(secretMark)
		done = span[1]
	}
	out.WriteString(t[done:])
	return out.String()
}

// maxEscapes is how many times a text may be escaped. Tools answer with JSON in a JSON string, and
// some of them pass on such an answer of another tool.
const maxEscapes = 3

// spans returns the positions of secrets in raw, in order and without overlap. raw is a text that
// is escaped at least min times. A span never splits an escape.
func (s *scrubber) spans(raw []byte, min int) [][2]int {
	var all [][2]int
	text, origin := string(raw), func(i int) int { return i }
	for level := 0; level <= maxEscapes; level++ {
		if level >= min {
			for _, at := range s.find(text) {
				all = append(all, [2]int{origin(at[0]), origin(at[1])})
			}
		}
		if level >= min && !strings.Contains(text, `\`) {
			break
		}
		plain, offsets := unescaped(text)
		outer := origin
		text, origin = plain, func(i int) int { return outer(offsets[i]) }
	}
	slices.SortFunc(all, func(a, b [2]int) int { return a[0] - b[0] })
	var merged [][2]int
	for _, span := range all {
		if n := len(merged); n > 0 && span[0] < merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], span[1])
			continue
		}
		merged = append(merged, span)
	}
	return merged
}

// find returns the positions of a secret's encodings in text.
func (s *scrubber) find(text string) (found [][2]int) {
	for _, form := range s.forms {
		for at := 0; ; {
			i := strings.Index(text[at:], form)
			if i < 0 {
				break
			}
			found = append(found, [2]int{at + i, at + i + len(form)})
			at += i + len(form)
		}
	}
	return found
}

// unescaped removes JSON's escapes. For each byte of the result and for its end, it returns the
// position in the input. Text without escapes stays unchanged.
func unescaped(escaped string) (string, []int) {
	text, offsets := make([]byte, 0, len(escaped)), make([]int, 0, len(escaped)+1)
	for i := 0; i < len(escaped); {
		n, before := 1, len(text)
		r, isUnit := codeUnit(escaped[i:])
		switch {
		case isUnit:
			n, text = 6, utf8.AppendRune(text, r) // half a surrogate pair belongs to no secret
		case escaped[i] == '\\' && i+1 < len(escaped):
			n, text = 2, append(text, unquoted(escaped[i+1]))
		default:
			text = append(text, escaped[i])
		}
		for range len(text) - before {
			offsets = append(offsets, i)
		}
		i += n
	}
	return string(text), append(offsets, len(escaped))
}

// unquoted returns the character that a backslash and c encode.
func unquoted(c byte) byte {
	if i := strings.IndexByte("bfnrt", c); i >= 0 {
		return "\b\f\n\r\t"[i]
	}
	return c
}

// codeUnit reads an escape of the form \u1234 at the beginning of s.
func codeUnit(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// scrubberFor returns the scrubber for a server's secrets. It reuses the scrubber of the last call
// if the secrets are the same.
func (s *serverState) scrubberFor(secrets []string) *scrubber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scrubber == nil || !slices.Equal(s.scrubber.secrets, secrets) {
		s.scrubber = newScrubber(secrets)
	}
	return s.scrubber
}

// redacted returns a server's own error without the known secrets. The error goes to the caller,
// and servers quote the credential that they refuse.
func (o *operation) redacted(e *outcome.RPCError) *outcome.RPCError {
	r := newRedactor(o.secrets())
	return &outcome.RPCError{Code: e.Code, Message: r.text(e.Message), Data: r.clean(e.Data)}
}

// redactedTask returns the answer to tasks/get. It redacts the error of a failed task in the same
// way as the error of a call.
func (o *operation) redactedTask(task json.RawMessage) json.RawMessage {
	if failure := rawjson.Get(task, "error"); failure != nil {
		return rawjson.Set(task, "error", newRedactor(o.secrets()).clean(failure))
	}
	return task
}

// scrubbed returns a result without the server's secrets and without the id of its session.
func (o *operation) scrubbed(result json.RawMessage) json.RawMessage {
	result = o.server.scrubberFor(o.ep.secrets).clean(result)
	if o.session == nil || o.session.id == "" || !bytes.Contains(result, []byte(o.session.id)) {
		return result
	}
	return newScrubber([]string{o.session.id}).clean(result)
}
