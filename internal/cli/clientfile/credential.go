package clientfile

import (
	"regexp"
	"strings"
)

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
