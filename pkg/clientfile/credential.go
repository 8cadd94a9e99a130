package clientfile

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/config"
)

// known are how the credentials of well-known services begin.
var known = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|gl[a-z]{2,5}-|sk-|sk_live_|sk_test_|rk_live_|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|eyJ[A-Za-z0-9_-]+\.|npm_|pypi-|hf_|dop_v1_|doo_v1_|pct_|SG\.|lin_api_|ntn_|secret_|figd_|tvly-|pplx-|gsk_|r8_|whsec_|shpat_|shpss_|dckr_pat_|PMAK-|NRAK-|fc-|ctx7sk|sbp_|sntrys_|sntryu_|ATATT|-----BEGIN )`)

// scheme is what stands before a credential in a header.
var scheme = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey|api-key|bot|key)[ \t]+`)

// told are ends of names which say that the value tells of a credential, and is none.
var told = regexp.MustCompile(`(?i)(_|-|^)(url|uri|path|file|dir|id|name|type|limit|limits|max|ttl|expiry|expires|count|host|port|region|mode|enabled|auth_?method|auth_?type)$`)

// credential returns which part of a value is a credential: by the name that it goes by, or by its look.
func credential(name, value string) (from, to int, found bool) {
	from = len(scheme.FindString(value))
	rest := value[from:]
	switch {
	case strings.TrimSpace(rest) == "", plainWord(rest):
		return 0, 0, false
	case from > 0, known.MatchString(rest), random(rest):
		return from, len(value), true
	}
	if at, end, ok := password(value); ok {
		return at, end, true
	}
	if strings.Contains(value, "://") {
		return 0, len(value), secretQuery(value) || secretPath(value)
	}
	return 0, len(value), secretName(name) && !told.MatchString(name)
}

// secretName reports whether what goes by the name is a credential as a rule.
func secretName(name string) bool {
	lower := strings.ToLower(name)
	return config.LooksSecret(name) || strings.Contains(lower, "passwd") || strings.HasSuffix(lower, "_pat") || strings.HasSuffix(lower, "_dsn")
}

// plainWord reports whether a value is one that nobody keeps secret: a number, yes or no.
func plainWord(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default", "oauth", "stdio", "http":
		return true
	}
	return len(s) < 8 && strings.Trim(s, "0123456789.") == ""
}

// random reports whether a text has the look of a key: a long run of letters and digits without a word in it.
func random(s string) bool {
	if strings.ContainsAny(s, " ,;:/@\\") {
		return false
	}
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '=' }) {
		letters, digits := 0, 0
		for _, r := range part {
			switch {
			case r >= '0' && r <= '9':
				digits++
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
				letters++
			}
		}
		if len(part) >= 16 && letters+digits == len(part) && digits >= 2 && letters >= 2 && entropy(part) >= 3 {
			return true
		}
	}
	return false
}

// entropy returns how many bits a character of s tells.
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

// password returns where the password stands in a value that is a URL.
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

// secretQuery reports whether the query of a URL holds a credential.
func secretQuery(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if _, _, found := credential(name, v); found && v != address {
				return true
			}
		}
	}
	return false
}

// secretPath reports whether a part of a URL's path has the look of a key.
func secretPath(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return random(part) || known.MatchString(part) })
}

var noName = regexp.MustCompile(`[^A-Z0-9]+`)

// variableOf returns the name of a variable for what goes by a name.
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

// ownVariable returns the name of a variable for one of a program's environment.
func ownVariable(name string) string {
	if isVariable(name) {
		return name
	}
	return variableOf(name)
}
