package clientfile

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// credential returns the position of a credential in a value. It finds a credential by the name or
// by the form of the value.
func credential(name, value string) (from, to int, found bool) {
	from = secret.SchemeLen(value)
	if secret.Looks("", value) {
		return from, len(value), true
	}
	if at, end, ok := password(value); ok {
		return at, end, true
	}
	if strings.Contains(value, "://") {
		return 0, len(value), secretURL(value)
	}
	return from, len(value), secret.Looks(name, value)
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
	_, _, found := credential(name, value)
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
	return slices.ContainsFunc(strings.Split(u.Path, "/"), secret.LooksKey)
}

var noName = regexp.MustCompile(`[^A-Z0-9]+`)

// variableOf turns a name into a valid name of a variable.
func variableOf(name string) string {
	out := strings.Trim(noName.ReplaceAllString(strings.ToUpper(name), "_"), "_")
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		out = strings.TrimSuffix("MCP_"+out, "_")
	}
	return out
}

// headerVariable returns the name of a variable for a header of a server.
func headerVariable(server, header string) string {
	if strings.EqualFold(header, "Authorization") {
		return variableOf(server + "_TOKEN")
	}
	what := variableOf(strings.TrimPrefix(strings.ToLower(header), "x-"))
	if strings.HasPrefix(what, variableOf(server)+"_") {
		return what
	}
	return variableOf(server + "_" + what)
}

// ownVariable returns the variable name that the config uses for an environment variable of a
// program.
func ownVariable(name string) string {
	if isVariable(name) {
		return name
	}
	return variableOf(name)
}
