package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const credential = `tok/en+"s3cr3t"&value`

func TestScrubber(t *testing.T) {
	s := newScrubber([]string{"Bearer " + credential, credential})
	b64 := base64.StdEncoding
	quotedBy := func(v any) string {
		raw, err := json.Marshal(v)
		require.OK(t, err)
		return string(raw)
	}
	inner := quotedBy(map[string]string{"Authorization": "Bearer " + credential})
	for name, tt := range map[string]struct{ in, want string }{
		"as it is":               {`{"a":"x ` + strings.ReplaceAll(credential, `"`, `\"`) + ` y"}`, `{"a":"x [secret] y"}`},
		"by encoding/json":       {`{"a":` + quotedBy(credential) + `}`, `{"a":"[secret]"}`},
		"with slashes escaped":   {`{"a":"tok\/en+\"s3cr3t\"&value"}`, `{"a":"[secret]"}`},
		"all escaped":            {`{"a":"\u0074\u006f\u006b\u002f\u0065\u006e\u002B\u0022s3cr3t\u0022\u0026value"}`, `{"a":"[secret]"}`},
		"as a key":               {`{` + quotedBy(credential) + `:1}`, `{"[secret]":1}`},
		"JSON inside a text":     {`{"text":` + quotedBy(inner) + `}`, `{"text":"{\"Authorization\":\"Bearer [secret]\"}"}`},
		"JSON with slashes":      {`{"text":` + quotedBy(`{"a":"tok\/en+\"s3cr3t\"&value"}`) + `}`, `{"text":"{\"a\":\"[secret]\"}"}`},
		"in a URL":               {`{"a":"https://x/?q=` + url.QueryEscape(credential) + `&z"}`, `{"a":"https://x/?q=[secret]&z"}`},
		"in a path":              {`{"a":"https://x/` + url.PathEscape(credential) + `"}`, `{"a":"https://x/[secret]"}`},
		"base64":                 {`{"a":"` + b64.EncodeToString([]byte(credential)) + `"}`, `{"a":"[secret]"}`},
		"base64url, no padding":  {`{"a":"` + base64.RawURLEncoding.EncodeToString([]byte(credential)) + `"}`, `{"a":"[secret]"}`},
		"twice":                  {`["` + credential[:3] + `",` + quotedBy(credential+credential) + `]`, `["tok","[secret][secret]"]`},
		"other bytes stay":       {`{ "n":9007199254740993, "é\u00e9\/":"\u00e9 ` + strings.Trim(quotedBy(credential), `"`) + ` \/\ud83d\ude00\t", "z":[1.0 ]}`, `{ "n":9007199254740993, "é\u00e9\/":"\u00e9 [secret] \/\ud83d\ude00\t", "z":[1.0 ]}`},
		"an escape is not split": {`{"a":"s3cr3t \\u0074 \u0041s3cr3t"}`, `{"a":"s3cr3t \\u0074 \u0041s3cr3t"}`},
	} {
		got := s.clean(json.RawMessage(tt.in))
		if !json.Valid([]byte(tt.in)) || !json.Valid(got) || string(got) != tt.want {
			t.Errorf("%s: clean(%s) = %s, want %s", name, tt.in, got, tt.want)
		}
	}
	for before := range 4 {
		for after := range 4 {
			long := strings.Repeat("a", before) + credential + strings.Repeat("z", after)
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				in := `{"data":"` + enc.EncodeToString([]byte(long)) + `"}`
				got := string(s.clean(json.RawMessage(in)))
				if !strings.Contains(got, secretMark) || len(got)-len(secretMark) > len(in)-len(credential) {
					t.Errorf("%d bytes before the secret, %d after: clean(%s) = %s",
						before, after, in, got)
				}
			}
		}
	}
}

func TestScrubberKeepsBytes(t *testing.T) {
	s := newScrubber([]string{"Bearer " + credential, credential, "short"})
	for _, in := range []string{
		``, `{}`, `{"a":"short","b":"Bearer"}`, `{"a":"tok/en+"}`, `{"n":12345678}`, `{"a":"s3cr3t"}`, `{"a":"tok/en+'s3cr3t'&value"}`,
		`{"text":"` + strings.Repeat(`a line with \"quotes\" and \u00e9\n`, 1000) + `"}`,
	} {
		raw := json.RawMessage(in)
		if got := s.clean(raw); !bytes.Equal(got, raw) || len(raw) > 0 && &got[0] != &raw[0] {
			t.Errorf("clean(%.80s) is not the same", in)
		}
	}
	raw := json.RawMessage(`{"text":"` + strings.Repeat(`a line with \"quotes\"\n`, 1000) + `"}`)
	if n := testing.AllocsPerRun(100, func() { s.clean(raw) }); n != 0 {
		t.Errorf("clean of a result without a secret makes %v allocations, want 0", n)
	}
	if raw := json.RawMessage(`{"a":"12345678","b":12345678}`); string(newScrubber([]string{"12345678"}).clean(raw)) != `{"a":"[secret]","b":12345678}` {
		t.Error("clean removes a number")
	}
}

// echoing answers a call with the call's headers, in every place of a result.
func echoing(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
	headers, err := json.Marshal(c.Header)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(string(headers))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s},{"type":"resource","resource":{"uri":"x:y","blob":%q}}],"structuredContent":%s,"n":9007199254740993}`,
		text, base64.StdEncoding.EncodeToString(headers), headers), nil
}

func TestResultsHideCredentials(t *testing.T) {
	const token, password = "ghp_0123456789abcdef/+x", "correct horse battery"
	for name, tt := range map[string]struct {
		headers map[string]string
		hidden  []string
		shown   []string
	}{
		"by reference":                  {map[string]string{"Authorization": "Bearer ${env:T}"}, []string{token}, nil},
		"written out":                   {map[string]string{"Authorization": "Bearer " + token}, []string{token}, nil},
		"a header X-Api-Key":            {map[string]string{"X-Api-Key": token}, []string{token}, nil},
		"a value that looks like a key": {map[string]string{"X-Acme": "a1b2c3d4e5f6a7b8c9d0e1"}, []string{"a1b2c3d4e5f6a7b8c9d0e1"}, nil},
		"basic":                         {map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+password))}, []string{password, base64.StdEncoding.EncodeToString([]byte("ada:" + password))}, nil},
		"no credentials":                {map[string]string{"X-Region": "eu-central-1", "X-Team": "payments and ledgers, 2026"}, nil, []string{"eu-central-1", "payments and ledgers, 2026"}},
	} {
		for _, o := range []upstreamtest.Options{{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Legacy, SSE: true}} {
			o.Call = echoing
			f := newFixture(t, Options{Secrets: secretsFunc(func(string) (string, error) { return token, nil })}, o)
			f.targets[0].Headers = tt.headers
			got := f.works()
			if !json.Valid([]byte(got)) || !strings.Contains(got, `"n":9007199254740993`) {
				t.Fatalf("%s: Call = %s", name, got)
			}
			everything := got + unfolded(t, []byte(got))
			for _, secret := range tt.hidden {
				if strings.Contains(everything, secret) {
					t.Errorf("%s: secret %q is in %s", name, secret, everything)
				}
			}
			for _, text := range tt.shown {
				if strings.Count(everything, text) < 3 {
					t.Errorf("%s: %q is missing in %s", name, text, everything)
				}
			}
			if len(tt.hidden) > 0 && strings.Count(got, secretMark) < 3 {
				t.Errorf("%s: %s has fewer than three marks", name, got)
			}
		}
	}
}

// unfolded returns what a program reads from the echoed result: its strings and its blob.
func unfolded(t *testing.T, result json.RawMessage) string {
	t.Helper()
	r := require.JSON[struct {
		Content []struct {
			Text     string
			Resource struct{ Blob string }
		}
		StructuredContent map[string][]string
	}](t, result)
	blob, _ := base64.StdEncoding.DecodeString(r.Content[1].Resource.Blob) // fails at a mark, and returns the bytes before it
	return r.Content[0].Text + string(blob) + fmt.Sprint(r.StructuredContent)
}

// FuzzScrubber checks that the output is JSON, that no string in it contains the secret, and that
// strings without the secret are unchanged.
func FuzzScrubber(f *testing.F) {
	f.Add("before ", " after", credential, uint8(0))
	f.Add("\\", "\"", "12345678", uint8(1))
	f.Add("é\u2028", "\x00", "<>&'+/=abcdefgh", uint8(2))
	f.Fuzz(func(t *testing.T, before, after, secret string, way uint8) {
		before, after, secret = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?"), strings.ToValidUTF8(secret, "?")
		if len(secret) < minEchoed || len(secret) > 100 || strings.Contains(secretMark, secret) || strings.ContainsAny(secret, "[]") || strings.ContainsAny(before+after, "[]") {
			return
		}
		whole := before + secret + after
		switch way % 3 {
		case 1:
			whole = before + string(rawjson.Quote(secret)) + after
		case 2:
			whole = base64.StdEncoding.EncodeToString([]byte(whole))
		}
		other := strings.ReplaceAll(before+"|"+after, secret, "")
		in, err := json.Marshal([]any{whole, other, 1.5, map[string]any{whole: nil}})
		require.OK(t, err)
		s := newScrubber([]string{secret})
		got := s.clean(in)
		out := require.JSON[[]any](t, got)
		text, _ := out[0].(string)
		if strings.Contains(strings.ReplaceAll(text, secretMark, "\x00"), secret) || !strings.Contains(text, secretMark) {
			t.Errorf("%q stays in %q", secret, text)
		}
		if len(s.find(other)) == 0 && out[1] != other {
			t.Errorf("%q became %q", other, out[1])
		}
	})
}

func BenchmarkScrubber(b *testing.B) {
	line, _ := json.Marshal(`2026-11-21T20:00:00Z INFO handled "GET /v1/items/1234" for user-7 in 12ms, token ghp_000000` + "\n")
	text := json.RawMessage(`{"text":"` + strings.Repeat(strings.Trim(string(line), `"`), maxResponse/len(line)) + `"}`)
	blob := json.RawMessage(`{"blob":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("some bytes of a picture\xff\x00"), maxResponse/34)) + `"}`)
	for name, raw := range map[string]json.RawMessage{"text": text, "blob": blob} {
		for _, n := range []int{1, 5} {
			var secrets []string
			for i := range n {
				secrets = append(secrets, fmt.Sprintf("ghp_%d123456789abcdefABCDEF", i))
			}
			s := newScrubber(secrets)
			b.Run(fmt.Sprintf("%s, %d secrets", name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					if len(s.clean(raw)) != len(raw) {
						b.Fatal("clean removed a secret from a result that has none")
					}
				}
			})
		}
	}
	b.Run("reading the same result", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := splitForeign(text); err != nil {
				b.Fatal("not JSON")
			}
		}
	})
}
