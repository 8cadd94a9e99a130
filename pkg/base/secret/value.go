package secret

import (
	"net/url"
	"slices"
	"strings"
)

// FindCredential returns the position of a credential in a value. It finds a credential by the name
// or by the form of the value.
func FindCredential(name, value string) (from, to int, found bool) {
	from = SchemeLen(value)
	if Looks("", value) {
		return from, len(value), true
	}
	if at, end, ok := password(value); ok {
		return at, end, true
	}
	if strings.Contains(value, "://") {
		return 0, len(value), secretURL(value)
	}
	return from, len(value), Looks(name, value)
}

// password returns the position of the password in a value that is a URL.
func password(value string) (from, to int, found bool) {
	i := strings.Index(value, "://")
	if i < 0 {
		return 0, 0, false
	}
	rest := value[i+3:]
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	colon := strings.IndexByte(rest, ':')
	if at < 0 || colon < 0 || colon >= at-1 {
		return 0, 0, false
	}
	return i + 3 + colon + 1, i + 3 + at, true
}

// IsCredential reports whether a part of a value is a credential, by the name or the form of the
// value. name may be "".
func IsCredential(name, value string) bool {
	_, _, found := FindCredential(name, value)
	return found
}

// secretURL reports whether the query or the path of a URL contains a credential.
func secretURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	for name, values := range u.Query() {
		if slices.ContainsFunc(values, func(v string) bool { return IsCredential(name, v) }) {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(u.Path, "/"), looksKey)
}
