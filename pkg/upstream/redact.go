package upstream

import (
	"maps"
	"net/url"
	"regexp"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// secretMark replaces every text that is removed from an error.
const secretMark = "[secret]"

// minSecret is the shortest text that is removed from an error, in bytes. Shorter texts are no
// secrets, and an error without these texts would be unreadable.
const minSecret = 4

// urlSecrets returns the parts of a URL that often contain a credential, and the parts that are
// credentials by their position or name.
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

// redact removes secrets from a text that may repeat anything: an error, or a body that echoes the
// request. values are the known secrets. redact also removes the user info and the query of every
// URL.
func redact(s string, values []string) string {
	return redactURLs(newRedactor(values).text(s))
}

var (
	urlUser  = regexp.MustCompile("(://)[^/\\s\"'<>`\\\\]*@")
	urlQuery = regexp.MustCompile("(://[^?\\s\"'<>`\\\\]*[?])[^\\s\"'<>`\\\\]*")
)

// redactURLs removes user info and query from everything that looks like a URL.
func redactURLs(s string) string {
	s = urlUser.ReplaceAllString(s, "${1}"+secretMark+"@")
	return urlQuery.ReplaceAllString(s, "${1}"+secretMark)
}
