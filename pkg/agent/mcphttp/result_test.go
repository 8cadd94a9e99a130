package mcphttp

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func encodedLen(t testing.TB, s string) int {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.OK(t, enc.Encode(s))
	return b.Len() - len("\"\"\n")
}

func FuzzQuotedLen(f *testing.F) {
	for _, s := range []string{"", "plain", `"\`, "\x00\x1f\n\r\t\b\f\x7f", "é日🙂", "\u2028\u2029", "<>&", "\xff\xc3", "a\xe2\x80"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := quotedLen(b), encodedLen(t, string(b)); got != want {
			t.Errorf("quotedLen(%q) = %d, the encoder writes %d", b, got, want)
		}
	})
}

// If a result is an object, decorate returns an object with the same values.
func FuzzDecorate(f *testing.F) {
	for _, s := range []string{
		`{"content":[],"isError":true,"structuredContent":{}}`, `{"_meta":{"a":1}}`, `{"a":1,"a":2}`, `{"tools":[]}`, `{ }`, `[]`, `{"a":}`, `{"resultType":"x"}`,
	} {
		f.Add([]byte(s), true, true)
		f.Add([]byte(s), false, false)
	}
	f.Fuzz(func(t *testing.T, result []byte, list, modern bool) {
		d := decorator{list: list, modern: modern, checked: !modern, serverInfo: []byte(`{"name":"n"}`)}
		out, err := d.decorate(result)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(result, &before) != nil {
			return // decorate may pass on invalid UTF-8 of the backend
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", result, out, err)
		}
		if rt := before["resultType"]; !list && rt != nil && string(rt) != resultComplete && (!modern || string(rt) != resultAsks) {
			return
		}
		for name, value := range before {
			switch name {
			case "_meta", "cacheScope", "structuredContent", "content", "resultType":
				continue
			}
			if !bytes.Equal(after[name], value) {
				t.Errorf("%q: %s became %s", name, value, after[name])
			}
		}
	})
}
