package upstream

import (
	"regexp"
	"strings"
)

// An ailment is a known reason why programs do not start, and advice for the operator.
type ailment struct {
	words  *regexp.Regexp // of the program's standard error
	extra  *regexp.Regexp // further words that the text must contain; nil: none
	advice string         // %s: the text that extra matched
}

// installs matches messages of npx, uvx and similar installers about their package registry.
var installs = regexp.MustCompile(`(?i)npm (error|err!)|registry|/simple/|pypi|pythonhosted|failed to fetch`)

// ailments begin with the more specific causes: a proxy that requires a login also makes a registry
// unreachable.
var ailments = []ailment{
	{
		regexp.MustCompile(`(?i)SELF_SIGNED_CERT|self.signed certificate|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)|` +
			`unable to get (local )?issuer cert|unable to verify the first cert|CERTIFICATE_VERIFY_FAILED|` +
			`certificate verify failed|UnknownIssuer`), nil,
		"The program does not trust a certificate, for example of a proxy with its own CA: " +
			"start the gateway with NODE_EXTRA_CA_CERTS (npx; also npm_config_cafile, if an npmrc sets cafile) " +
			"and SSL_CERT_FILE (uvx) set to the CA's file",
	},
	{
		regexp.MustCompile(`(?i)proxy auth|\b407\b`), installs,
		"The proxy requires a login: start the gateway with user and password in HTTPS_PROXY",
	},
	{
		regexp.MustCompile(`ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND|Cannot find (module|package)`),
		regexp.MustCompile(`[^\s'"()]*[/\\]_npx[/\\]+[0-9a-f]+`),
		"The cache of npx is incomplete: remove the folder %s, and npx installs it again",
	},
	{
		regexp.MustCompile(`ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|ECONNRESET|(?i:dns error|` +
			`failed to lookup address|connection refused|network is unreachable|timed out|behind a proxy)`), installs,
		"The program is installed at its start, and its registry cannot be reached: start the gateway " +
			"with HTTPS_PROXY, or npm_config_registry (npx) and UV_DEFAULT_INDEX (uvx), as this network needs them",
	},
}

// advice returns what an operator can do about a program that wrote these lines to its standard
// error. It returns "" if the lines show no known cause.
func advice(lines []string) string {
	all := strings.ReplaceAll(strings.Join(lines, "\n"), `\\`, `\`) // the lines are quoted
	for _, a := range ailments {
		if !a.words.MatchString(all) {
			continue
		}
		words := ""
		if a.extra != nil {
			if words = a.extra.FindString(all); words == "" {
				continue
			}
		}
		return strings.Replace(a.advice, "%s", words, 1)
	}
	return ""
}
