package upstream

import (
	"net/url"
	"regexp"
	"slices"
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

var (
	urlUser  = regexp.MustCompile("(://)[^/\\s\"'<>`\\\\]*@")
	urlQuery = regexp.MustCompile("(://[^?\\s\"'<>`\\\\]*[?])[^\\s\"'<>`\\\\]*")
)

// redactURLs cuts user info and query out of everything that looks like a URL.
func redactURLs(s string) string {
	s = urlUser.ReplaceAllString(s, "${1}"+secretMark+"@")
	return urlQuery.ReplaceAllString(s, "${1}"+secretMark)
}
