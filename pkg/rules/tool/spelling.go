package tool

import (
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// maxDecodings is how many layers of percent-encoding are removed.
const maxDecodings = 4

// PlainURIs returns other spellings of a URI that a server may treat as the same: servers remove
// percent-encoding, resolve dot segments and drop unused parts before they look something up (RFC
// 3986 §6.2.2). So a lock of one spelling has to count for the others. The result is only for
// comparisons. A URI in plain spelling without a query has no other spellings.
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

// PlainURI returns the plain spelling that all spellings of one URI share.
func PlainURI(uri string) string {
	whole, _ := plainURI(uri)
	return whole
}

// plainURI returns the plain spelling, and the same without query and fragment.
func plainURI(uri string) (whole, short string) {
	uri, _, _ = strings.Cut(uri, "#") // clients that know the fragment's meaning never send it
	uri = decodeAll(uri)
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
	if name == "/" && authority != "" { // RFC 3986 §6.2.3
		name = ""
	}
	short = strings.ToLower(scheme) + ":" + authority + name
	return short + tail, short
}

// NormalURI returns the form of a URI that every server reads in the same way. Some servers drop
// control characters, blanks at either end, dots at the end of a name, or path parameters (";x"),
// and some change letters to their NFKC form. NormalURI does all of this to each part of the URI,
// under any percent-encoding; keepParams keeps path parameters. A URI in normal form is returned
// unchanged. NormalURI does not change letter case, dot segments and encodings: [PlainURIs] handles
// these.
func NormalURI(uri string, keepParams bool) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		scheme, rest = "", uri
	}
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	name := eachPart(rest[:end], inPath, func(s string) string { return normalPart(s, inPath, keepParams) })
	tail := eachPart(rest[end:], inQuery, func(s string) string { return normalPart(s, inQuery, true) })
	if !ok {
		return name + tail
	}
	return normalPart(scheme, inPath, true) + ":" + name + tail
}

// The separators of a URI's parts: before the query, and in the query.
const (
	inPath  = `/\?#`
	inQuery = `/\?#&`
)

// eachPart replaces each part of s between separators by the text that do returns for the part.
func eachPart(s, separators string, do func(string) string) string {
	var b strings.Builder
	for {
		end := strings.IndexAny(s, separators)
		if end < 0 {
			return b.String() + do(s)
		}
		b.WriteString(do(s[:end]) + s[end:end+1])
		s = s[end+1:]
	}
}

// normalPart returns the normal form of one part, percent-encoded if it differs from the original.
func normalPart(sent, separators string, keepParams bool) string {
	decoded := decodeAll(sent)
	normal := eachPart(text.Normal(decoded), separators, func(s string) string { // an encoded separator is a separator, too
		if s == "." || s == ".." {
			return s
		}
		if !keepParams {
			s, _, _ = strings.Cut(s, ";")
		}
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
		return strings.TrimRightFunc(s, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	})
	if normal == decoded {
		return sent
	}
	return strings.ReplaceAll(url.PathEscape(normal), "%3B", ";") // the remaining semicolons have a meaning
}

// decodeAll removes percent-encoding, at most [maxDecodings] times.
func decodeAll(s string) string {
	for range maxDecodings {
		decoded := decodePercent(s)
		if decoded == s {
			break
		}
		s = decoded
	}
	return s
}

// decodePercent removes one layer of percent-encoding, and keeps invalid encodings.
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
