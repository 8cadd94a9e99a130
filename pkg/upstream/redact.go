package upstream

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// secretMark stands for every text that is taken out of an error.
const secretMark = "[secret]"

// minSecret is the shortest text that is taken out. Shorter ones are no
// secrets, and taking them out would make an error unreadable.
const minSecret = 4

// urlSecrets returns the parts of a URL that often carry a credential.
func urlSecrets(u *url.URL) []string {
	var out []string
	if u.User != nil {
		password, _ := u.User.Password()
		out = append(out, u.User.String(), u.User.Username(), password)
	}
	if u.RawQuery != "" {
		out = append(out, u.RawQuery)
		for _, values := range u.Query() {
			out = append(out, values...)
		}
	}
	return out
}

// urlCredentials returns the parts of a URL that are credentials by their place or name.
func urlCredentials(u *url.URL) []string {
	var out []string
	if password, ok := u.User.Password(); ok {
		out = append(out, password)
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if isSecret(name, v) {
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	return out
}

// redact takes what must not be shown out of a text that may repeat anything: an
// error, or a body that echoes the request. values are the known secrets; of
// every URL the user info and the query go too.
func redact(s string, values []string) string {
	return redactURLs(replacer(values).Replace(s))
}

// replacer puts a mark in the place of every known secret, however it is written.
func replacer(values []string) *strings.Replacer {
	var all []string
	for _, v := range values {
		quoted, _ := json.Marshal(v) // a string always marshals
		all = append(all, v, url.QueryEscape(v), url.PathEscape(v), strings.Trim(string(quoted), `"`))
	}
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < minSecret })
	// A longer secret first: a shorter one may be a part of it.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, v := range all {
		pairs = append(pairs, v, secretMark)
	}
	return strings.NewReplacer(pairs...)
}

// redacted returns e without the known secrets. The error goes to the caller as it is,
// and servers quote the credential that they refuse.
func (e *RPCError) redacted(values []string, s *scrubber) *RPCError {
	r := replacer(values)
	return &RPCError{Code: e.Code, Message: s.text(r.Replace(e.Message)), Data: s.clean(redactStrings(e.Data, r))}
}

// redactStrings applies r to the strings of valid JSON. All other bytes stay.
func redactStrings(raw json.RawMessage, r *strings.Replacer) json.RawMessage {
	var out json.RawMessage
	rest := raw
	for {
		from := bytes.IndexByte(rest, '"')
		if from < 0 {
			return append(out, rest...)
		}
		to := from + 1
		for ; rest[to] != '"'; to++ {
			if rest[to] == '\\' {
				to++
			}
		}
		to++
		out = append(out, rest[:from]...)
		if is := rawjson.Text(rest[from:to]); r.Replace(is) != is {
			out = append(out, rawjson.Quote(r.Replace(is))...)
		} else {
			out = append(out, rest[from:to]...)
		}
		rest = rest[to:]
	}
}

// redactURLs cuts user info and query out of everything that looks like a URL.
func redactURLs(s string) string {
	var out strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i+3])
		s = s[i+3:]
		end := strings.IndexAny(s, " \t\r\n\"'<>`\\")
		if end < 0 {
			end = len(s)
		}
		rest := s[:end]
		s = s[end:]
		host, path, hasPath := strings.Cut(rest, "/")
		if at := strings.LastIndex(host, "@"); at >= 0 {
			host = secretMark + host[at:]
		}
		if hasPath {
			host += "/" + path
		}
		plain, _, hasQuery := strings.Cut(host, "?")
		out.WriteString(plain)
		if hasQuery {
			out.WriteString("?" + secretMark)
		}
	}
}
