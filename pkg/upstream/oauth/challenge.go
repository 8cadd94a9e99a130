package oauth

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// challengeParam is one parameter of WWW-Authenticate. It matches a whole quoted value, so that it
// finds no parameter inside the quotes.
var challengeParam = regexp.MustCompile(`([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))`)

// ChallengeParam returns the first value of a parameter in the challenges of h, or "" if they have
// none.
func ChallengeParam(h http.Header, name string) string {
	for _, v := range h.Values("Www-Authenticate") {
		for _, m := range challengeParam.FindAllStringSubmatch(v, -1) {
			if strings.EqualFold(m[1], name) {
				return m[2] + m[3]
			}
		}
	}
	return ""
}

// RequiresBearer reports whether a challenge of h has the scheme Bearer.
func RequiresBearer(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Www-Authenticate"), func(v string) bool {
		words := strings.FieldsFunc(challengeParam.ReplaceAllString(v, ","), func(r rune) bool {
			return r == ' ' || r == ',' || r == '\t'
		})
		return slices.ContainsFunc(words, func(w string) bool {
			return strings.EqualFold(w, "Bearer")
		})
	})
}
