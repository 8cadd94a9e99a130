package upstream

import (
	"net/url"
	"slices"
	"strings"
)

// secretMark stands for every text that is taken out of an error.
const secretMark = "[secret]"

// minSecret is the shortest text that is taken out of an error, in bytes. Shorter ones are
// no secrets, and taking them out would make an error unreadable.
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
	return redactURLs(newRedactor(values).text(s))
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
