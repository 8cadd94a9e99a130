package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// arguments reads the arguments of one of the gateway's tools and collects all faults, so that an
// agent can fix them together. A null means that the argument is absent: some clients send null for
// each absent one.
type arguments struct {
	tool   string
	values map[string]json.RawMessage
	faults []string
}

// readArguments reads the arguments of a call, and refuses unknown keys.
func readArguments(r mcp.Request, known ...string) *arguments {
	a := &arguments{tool: r.Name, values: map[string]json.RawMessage{}}
	if r.Arguments != nil && r.Arguments[0] != '{' && string(r.Arguments) != "null" {
		a.faultf("arguments must be a JSON object")
	}
	for _, m := range r.Fields {
		switch {
		case !slices.Contains(known, m.Name):
			a.faultf("unknown argument %s: %s takes %s", quote(m.Name), r.Name, strings.Join(known, ", "))
		case string(m.Value) != "null":
			a.values[m.Name] = m.Value
		}
	}
	return a
}

func (a *arguments) faultf(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// fault returns the message for the agent, or "" if nothing is wrong.
func (a *arguments) fault() string {
	if len(a.faults) == 0 {
		return ""
	}
	return "Invalid arguments for " + a.tool + ": " + strings.Join(a.faults, "; ") + "."
}

// maxText is the maximum length of a text, in characters.
const maxText = 2000

// text returns a string of 1 to maxText characters, or "" if it is absent and not required.
func (a *arguments) text(key string, required bool, purpose string) string {
	raw, ok := a.values[key]
	if !ok {
		if required {
			a.faultf("%s is missing: give %s", key, purpose)
		}
		return ""
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		a.faultf("%s must be a string: give %s", key, purpose)
		return ""
	}
	switch n := utf8.RuneCountInString(s); {
	case strings.TrimSpace(s) == "":
		a.faultf("%s is empty: give %s", key, purpose)
	case n > maxText:
		a.faultf("%s has %d characters, at most %d are taken: give %s", key, n, maxText, purpose)
	}
	return s
}

// integer returns a number from lo to hi, or def if it is absent.
func (a *arguments) integer(key string, lo, hi, def int) int {
	raw, ok := a.values[key]
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(string(raw), 64) // a JSON string, object or literal is no Go number
	if err != nil || f != math.Trunc(f) || f < float64(lo) || f > float64(hi) {
		a.faultf("%s must be an integer from %d to %d, not %s", key, lo, hi, showValue(raw))
		return def
	}
	return int(f)
}

// boolean returns a flag, or false if it is absent.
func (a *arguments) boolean(key string) bool {
	switch raw := a.values[key]; string(raw) {
	case "true":
		return true
	case "false", "":
	default:
		a.faultf("%s must be true or false, not %s", key, showValue(raw))
	}
	return false
}

// oneOf returns an argument that is one of the options, or the first option if it is absent.
func (a *arguments) oneOf(key string, options ...string) string {
	raw, ok := a.values[key]
	if !ok {
		return options[0]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || !slices.Contains(options, s) {
		a.faultf("%s must be %s, not %s", key, strings.Join(options, " or "), showValue(raw))
		return options[0]
	}
	return s
}

// names returns a list of 1 to limit strings in their order, without duplicates.
func (a *arguments) names(key string, limit int) []string {
	raw, ok := a.values[key]
	if !ok {
		a.faultf("%s is missing: give a list of names of the form server:tool", key)
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > limit {
		a.faultf("%s must be a list of 1 to %d names of the form server:tool", key, limit)
		return nil
	}
	var out []string
	for i, item := range list {
		var s string
		if item[0] != '"' || json.Unmarshal(item, &s) != nil {
			a.faultf("%s[%d] must be a string of the form server:tool, not %s", key, i, showValue(item))
			continue
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// object returns a JSON object with its original bytes, or {} if it is absent.
func (a *arguments) object(key string) json.RawMessage {
	raw, ok := a.values[key]
	switch {
	case !ok:
		return json.RawMessage("{}")
	case raw[0] != '{':
		a.faultf("%s must be an object with the tool's own arguments, not %s", key, showValue(raw))
	}
	return raw
}

// showValue formats a JSON value for a message.
func showValue(raw json.RawMessage) string {
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return map[byte]string{'{': "an object", '[': "a list"}[raw[0]]
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && raw[0] == '"' {
		return "the string " + quote(s)
	}
	return text.Clip(string(raw), maxEcho)
}
