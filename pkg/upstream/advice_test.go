package upstream

import (
	"strings"
	"testing"
)

// npm 10, Node.js 22, uv 0.8 and pip 25 write these texts.
func TestAdvice(t *testing.T) {
	for name, tt := range map[string]struct{ lines, want string }{
		"npm, private CA":   {"\"npm error code SELF_SIGNED_CERT_IN_CHAIN\"\n\"npm error request to https://registry.npmjs.org/x failed, reason: self-signed certificate in certificate chain\"", "NODE_EXTRA_CA_CERTS"},
		"node, private CA":  {"\"Error: unable to get local issuer certificate\"", "does not trust a certificate"},
		"uv, private CA":    {"\"  Caused by: invalid peer certificate: UnknownIssuer\"", "SSL_CERT_FILE"},
		"pip, private CA":   {"\"SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed\"", "SSL_CERT_FILE"},
		"npm, no proxy":     {"\"npm error FetchError: request to https://registry.npmjs.org/x failed, reason: connect ECONNREFUSED 127.0.0.1:3128\"", "registry cannot be reached"},
		"npm, unknown host": {"\"npm error code ENOTFOUND\"", "registry cannot be reached"},
		"uv, no proxy":      {"\"error: Failed to fetch: `https://pypi.org/simple/x/`\"\n\"  Caused by: dns error: failed to lookup address information\"", "UV_DEFAULT_INDEX"},
		"npm, login":        {"\"npm error 407 Proxy Authentication Required - GET https://registry.npmjs.org/x\"", "requires a login"},
		"npx, incomplete install": {"\"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /root/.npm/_npx/1a2b3c/node_modules/x/index.js\"\n\"    at async main\"",
			"remove the folder /root/.npm/_npx/1a2b3c, and"},
		"npx, incomplete install, Windows": {`"Error: Cannot find module 'C:\\npm-cache\\_npx\\1a2b3c\\node_modules\\x'"`, `remove the folder C:\npm-cache\_npx\1a2b3c, and`},
		"a fault of the program":           {"\"Error: Cannot find module '/srv/x/index.js'\"", ""},
		"a database of the server":         {"\"Error: connect ECONNREFUSED 127.0.0.1:5432\"", ""},
		"a missing key":                    {"\"Error: API_KEY is required\"", ""},
	} {
		got := advice(strings.Split(tt.lines, "\n"))
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: advice is %q, want a text with %q", name, got, tt.want)
		}
	}
}
