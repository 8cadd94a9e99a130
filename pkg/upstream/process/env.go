package process

import (
	"maps"
	"slices"
	"strings"
)

// network returns the names of the variables with a machine's network settings: the proxy, the
// certificates to trust and the package registries. A proxy has a variable in each letter case.
func network() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
		"CURL_CA_BUNDLE", "PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_NATIVE_TLS",
		"npm_config_cafile", "npm_config_proxy", "npm_config_https_proxy", "npm_config_registry",
	}
}

// Environment returns the environment of a program. It has the variables in listed, and from this
// process only the variables for files and the network, and those that passed names. getenv returns
// the values of this process. A variable in listed replaces a variable of this process even if the
// letter case differs.
func Environment(getenv func(string) string, passed []string, listed map[string]string) []string {
	own := map[string]bool{}
	for name := range listed {
		own[strings.ToLower(name)] = true
	}
	all := map[string]string{}
	for _, name := range slices.Concat(inherited(), network(), passed) {
		if v := getenv(name); v != "" && !own[strings.ToLower(name)] {
			all[name] = v
		}
	}
	maps.Copy(all, listed)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
