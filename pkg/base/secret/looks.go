package secret

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Looks reports whether a value looks like a secret: by the name of its header, variable or flag,
// or because the value itself has the form of a key. name may be "".
//
// All code that hides, reports or moves secrets uses Looks, so that all of it uses the same names.
func Looks(name, value string) bool {
	scheme := schemes.FindString(value)
	value = value[len(scheme):]
	switch lower := strings.ToLower(strings.TrimSpace(scheme)); {
	case strings.TrimSpace(value) == "", plain.MatchString(value):
		return false
	case lower == "bearer", lower == "basic", looksKey(value):
		return true
	case shortFlag.MatchString(name):
		return secretFlag.MatchString(name) && isShortSecret(value)
	}
	name = words(name)
	isAttribute := attribute.MatchString(name)
	if uuid.MatchString(value) && !isAttribute {
		return true
	}
	contains := func(word string) bool { return strings.Contains(name, word) }
	switch {
	case !slices.ContainsFunc(inName, contains) && !asWord.MatchString(name):
		return false
	case isAttribute && !secretID.MatchString(name):
		return false
	}
	return strong.MatchString(name) || !isSmallNumber(value)
}

// SchemeLen returns the length of the scheme before a value's secret, such as "Bearer ".
func SchemeLen(value string) int { return len(schemes.FindString(value)) }

// schemes are the words before a secret in a header.
var schemes = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey|api-key|bot|key)[ \t]+`)

// plain are values that nobody keeps secret, and references to a value elsewhere.
var plain = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|none|null|auto|default|oauth|` +
	`bearer|basic|stdio|https?|sse|streamable-http|\$\{[^}]*\})$`)

var (
	// inName are words that mark a secret anywhere in a name.
	inName = []string{
		"auth", "key", "token", "secret", "password", "passwd", "passphrase", "pwd",
		"credential", "cookie", "session", "signature", "bearer",
	}

	// asWord are words that mark a secret only between separators, because "compass" contains
	// "pass".
	asWord = regexp.MustCompile(`(^|_)(pass|pw|sig|jwt|pat|dsn)(_|$)`)

	// strong are words in names whose value is secret even if it is a small number.
	strong = regexp.MustCompile(`(^|_)(pass|pw)(_|$)|secret|passw|passphrase|pwd|credential`)

	// attribute are ends of names whose value describes a secret but is not secret.
	attribute = regexp.MustCompile(`(_|^)(url|uri|path|file|dir|id|name|type|limits?|max|ttl|` +
		`timeout|expiry|expires|count|host|port|region|mode|enabled|algorithm|auth_?method|auth_?type)$`)

	// secretID are names that end with "id" although their value is secret.
	secretID = regexp.MustCompile(`(session|secret|cookie|pass).*_id$`)
)

// words returns a name in lower case with "_" between its words. It also splits apiKey.
func words(name string) string {
	var out strings.Builder
	var before rune
	for _, r := range strings.TrimLeft(name, "-") {
		switch {
		case strings.ContainsRune("-. ", r):
			r = '_'
		case unicode.IsUpper(r) && unicode.IsLower(before):
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
		before = r
	}
	return out.String()
}

// isNumber reports whether a value is a number, an address or a mapping of ports.
func isNumber(s string) bool { return strings.Trim(s, "0123456789.:") == "" }

func isSmallNumber(s string) bool { return len(s) < 8 && isNumber(s) }

var (
	shortFlag  = regexp.MustCompile(`^-[A-Za-z]$`)
	secretFlag = regexp.MustCompile(`(?i)^-[pkt]$`) // password, key, token
)

// local matches a path, or the name of a package with its scope.
var local = regexp.MustCompile(`^[/.~@][^/]*/`)

// isShortSecret reports whether the value of -p, -k or -t is a secret: many programs use these
// letters for a port, a folder or a transport.
func isShortSecret(value string) bool {
	return len(value) >= 8 && !isNumber(value) && !local.MatchString(value)
}

// keys are the prefixes of keys of well-known services.
var keys = regexp.MustCompile(`^(gh[pousr]_|github_pat_|` +
	`gl(pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|oas)-|sk-|sk_live_|sk_test_|rk_live_|` +
	`xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]+\.|npm_|pypi-|hf_|dop_v1_|doo_v1_|` +
	`pct_|SG\.|lin_api_|ntn_|secret_|figd_|tvly-|pplx-|gsk_|r8_|whsec_|` +
	`shpat_|shpss_|dckr_pat_|PMAK-|NRAK-|fc-|ctx7sk|sbp_|sntrys_|sntryu_|ATATT|-----BEGIN )`)

var uuid = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// looksKey reports whether a value has the form of a key, under any name: it has the prefix of a
// known service's keys, or a long run of letters and digits without a word in it.
func looksKey(value string) bool {
	if keys.MatchString(value) {
		return true
	}
	if len(value) < 16 || strings.ContainsAny(value, " ,;:/@\\") || uuid.MatchString(value) {
		return false
	}
	isSeparator := func(r rune) bool { return strings.ContainsRune("-_.=+", r) }
	for part := range strings.FieldsFuncSeq(value, isSeparator) {
		letters, digits := 0, 0
		for _, r := range part {
			switch {
			case r >= '0' && r <= '9':
				digits++
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
				letters++
			}
		}
		rare := min(letters, digits)
		long := len(part) >= 16 && rare >= 2 || len(part) >= 20 && rare >= 1
		if long && letters+digits == len(part) && entropy(part) >= 3 {
			return true
		}
	}
	return false
}

// entropy returns the bits of information in one character of s.
func entropy(s string) (bits float64) {
	counts := map[rune]float64{}
	for _, r := range s {
		counts[r]++
	}
	for _, n := range counts {
		p := n / float64(len(s))
		bits -= p * math.Log2(p)
	}
	return bits
}
