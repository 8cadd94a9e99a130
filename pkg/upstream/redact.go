package upstream

import (
	"maps"
	"net/url"
	"regexp"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// secretMark stands for every text that is taken out of an error.
const secretMark = "[secret]"

// minSecret is the shortest text that is taken out of an error, in bytes. Shorter ones are
// no secrets, and taking them out would make an error unreadable.
const minSecret = 4

// urlSecrets returns the parts of a URL that often carry a credential, and those that are one
// by their place or name.
func urlSecrets(u *url.URL) (values, credentials []string) {
	if u.User != nil {
		password, _ := u.User.Password()
		values, credentials = []string{u.User.String(), u.User.Username(), password}, []string{password}
	}
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values = append(values, query[name]...)
		isPlain := func(v string) bool { return !secret.Looks(name, v) }
		credentials = append(credentials, slices.DeleteFunc(query[name], isPlain)...)
	}
	return append(values, u.RawQuery), credentials
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
