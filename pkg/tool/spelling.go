package tool

import (
	"net/url"
	"path"
	"strings"
)

// maxDecodings is how often percent-encoding is taken off.
const maxDecodings = 4

// PlainURIs returns the other spellings of a URI under which what it names may be known: servers take
// off percent-encoding, resolve dot segments and drop what they have no use for before they look
// something up (RFC 3986 §6.2.2), so that a lock of one spelling has to count for the others. They are
// for comparing alone. A URI that is written plainly has none.
func PlainURIs(uri string) []string {
	whole, short := plainURI(uri)
	var out []string
	if whole != uri {
		out = append(out, whole)
	}
	if short != whole {
		out = append(out, short)
	}
	return out
}

// PlainURI returns the plain spelling that spellings of one URI have in common.
func PlainURI(uri string) string {
	whole, _ := plainURI(uri)
	return whole
}

// plainURI returns the plain spelling, and the same without query and fragment.
func plainURI(uri string) (whole, short string) {
	uri, _, _ = strings.Cut(uri, "#") // never sent by clients that know what it is
	for range maxDecodings {
		decoded := decodePercent(uri)
		if decoded == uri {
			break
		}
		uri = decoded
	}
	scheme, rest, ok := strings.Cut(strings.ReplaceAll(uri, `\`, "/"), ":")
	if !ok || !isScheme(scheme) {
		return uri, uri
	}
	authority := ""
	if after, has := strings.CutPrefix(rest, "//"); has {
		end := len(after)
		if i := strings.IndexAny(after, "/?#"); i >= 0 {
			end = i
		}
		authority, rest = strings.ToLower(after[:end]), after[end:]
		if authority == "localhost" && strings.EqualFold(scheme, "file") {
			authority = ""
		}
		authority = "//" + authority
	}
	name, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		name, tail = rest[:i], rest[i:]
	}
	if name != "" {
		name = path.Clean(name)
	}
	short = strings.ToLower(scheme) + ":" + authority + name
	return short + tail, short
}

// decodePercent takes off one layer of percent-encoding, and leaves what is none as it is.
func decodePercent(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
