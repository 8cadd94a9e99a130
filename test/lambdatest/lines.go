package lambdatest

import (
	"encoding/json"
	"strings"
	"testing"
)

// Lines parses the output of a function. The test fails if a line is not a JSON object, or if an
// object contains a member twice.
func Lines(t testing.TB, output string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(output) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("line %q is not a JSON object: %v", line, err)
			continue
		}
		if name := repeatedMember(line); name != "" {
			t.Errorf("line has the member %q twice: %s", name, line)
		}
		all = append(all, fields)
	}
	return all
}

// repeatedMember returns the name of the first member that an object of the line contains twice. It
// returns "" if there is none, or if the line is not JSON.
func repeatedMember(line string) string {
	if !json.Valid([]byte(line)) {
		return ""
	}
	return repeatedIn(json.NewDecoder(strings.NewReader(line)))
}

// repeatedIn is repeatedMember for the next value of valid JSON.
func repeatedIn(d *json.Decoder) string {
	open, _ := d.Token()
	if open != json.Delim('{') && open != json.Delim('[') {
		return ""
	}
	names := map[json.Token]bool{}
	for d.More() {
		if open == json.Delim('{') {
			name, _ := d.Token()
			if names[name] {
				return name.(string)
			}
			names[name] = true
		}
		if name := repeatedIn(d); name != "" {
			return name
		}
	}
	_, _ = d.Token() // the end of the object or array
	return ""
}
