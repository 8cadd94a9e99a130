package upstream

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestRedact(t *testing.T) {
	secrets := []string{"s3cr3t/+value", "Bearer tok en", `qu"ote`, "abc", "longer-secret", "longer-secret-still"}
	for in, want := range map[string]string{
		"plain text":                                  "plain text",
		"token s3cr3t/+value here":                    "token [secret] here",
		"as a query s3cr3t%2F%2Bvalue":                "as a query [secret]",
		`as JSON qu\"ote`:                             `as JSON [secret]`,
		"longer-secret-still and longer-secret":       "[secret] and [secret]",
		"too short to be one: abc":                    "too short to be one: abc",
		"Post \"https://u:p@a.example/x?y=z\": EOF":   "Post \"https://[secret]@a.example/x?[secret]\": EOF",
		"https://a.example?k=v":                       "https://a.example?[secret]",
		"https://a.example/path/only and http://b/?c": "https://a.example/path/only and http://b/?[secret]",
		"https://u@b@a.example/":                      "https://[secret]@a.example/",
		"ends with https://":                          "ends with https://",
	} {
		if got := redact(in, secrets); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
	u, err := url.Parse("https://someone:pass%20word@a.example/mcp?key=query%2Fvalue")
	require.OK(t, err)
	values, _ := urlSecrets(u)
	for _, in := range []string{"someone", "pass word", "pass%20word", "query/value", "query%2Fvalue", "key=query%2Fvalue"} {
		if got := redact("it said "+in, values); strings.Contains(got, in) {
			t.Errorf("redact leaves %q in %q", in, got)
		}
	}
}

func TestArgSecrets(t *testing.T) {
	got := argSecrets([]string{
		"--passwd", "a-secret", "--session=b-secret", "-p", "c-secret", "-p", "31415926", "--name", "kim",
		"-H", "Authorization: Bearer d-secret", "--db=https://u:e-secret@h/?sig=f-secret&page=2",
	})
	want := []string{"a-secret", "b-secret", "c-secret", "d-secret", "e-secret", "f-secret"}
	if !slices.Equal(got, want) {
		t.Errorf("argSecrets = %q, want %q", got, want)
	}
}

func TestVariableSecrets(t *testing.T) {
	for variable, want := range map[string][]string{
		"HTTPS_PROXY=http://me:a%40secret@p:3128/": {"a%40secret", "a@secret"},
		"all_proxy=me:b-secret@p:3128":             {"b-secret", "b-secret"},
		"HTTP_PROXY=http://me:c%secret@p:3128":     {"c%secret"},
		"PIP_INDEX_URL=https://p/simple?token=d-s": {"d-s"},
		"VAULT_TOKEN=e-secret":                     {"e-secret"},
		"PATH=/opt/a:/opt/node@20/bin":             nil,
		"NO_PROXY=localhost,10.0.0.0/8":            nil,
	} {
		name, value, _ := strings.Cut(variable, "=")
		if got := variableSecrets(name, value); !slices.Equal(got, want) {
			t.Errorf("variableSecrets(%s) = %q, want %q", variable, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Post \"https://u:p@a.example/?token\": token", "token")
	f.Add("://?@//", "://?")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < minSecret || strings.Contains(secretMark, secret) || strings.ContainsAny(secret, "[]") {
			return
		}
		if strings.Contains(redact("x "+text+" "+secret+" y", []string{secret}), secret) && !strings.Contains(strings.ReplaceAll(text+" x  y", secret, ""), secret) {
			t.Errorf("%q stays in %q", secret, redact("x "+text+" "+secret+" y", []string{secret}))
		}
	})
}

func TestResolveHeaders(t *testing.T) {
	c := newClient(t, Options{Secrets: secretsFunc(func(ref string) (string, error) {
		return map[string]string{"env:A": "a-value", "env:BREAK": "a\r\nX: y"}[ref], nil
	})})
	for value, want := range map[string]string{
		"plain": "plain", "Bearer ${env:A}": "Bearer a-value", "${env:A}${env:A}": "a-valuea-value", "$A {x}": "$A {x}", "": "",
	} {
		ep, err := c.resolve(t.Context(), Target{URL: "http://127.0.0.1/", Headers: map[string]string{"X-H": value}}, entryKey{})
		if err != nil || ep.header.Get("X-H") != want {
			t.Errorf("header %q = %v, %v; want %q", value, ep, err, want)
		}
	}
	for _, h := range []map[string]string{{"X-H": "${env:BREAK}"}, {"X-H": "${env:A"}} {
		_, err := c.resolve(t.Context(), Target{URL: "http://127.0.0.1/", Headers: h}, entryKey{})
		if _, ok := errors.AsType[*configError](err); !ok || strings.Contains(err.Error(), "X: y") {
			t.Errorf("headers %v: %v, want a fault that does not show the value", h, err)
		}
	}
}

func TestUpstreamErrorsHideSecrets(t *testing.T) {
	const message = "the token sk-s3cr3t/1 is not known"
	for in, want := range map[string]string{
		`{"header":"Bearer sk-s3cr3t/1","n":9007199254740993,"z":[1.0]}`:       `{"header":"[secret]","n":9007199254740993,"z":[1.0]}`,
		`["\u0073k-s3cr3t\/1", "quo\"te \\", {"sk-s3cr3t/1" : true}, "å", ""]`: `["[secret]", "quo\"te \\", {"[secret]" : true}, "å", ""]`,
		`"sk-s3cr3t%2F1"`: `"[secret]"`,
		`"` + base64.StdEncoding.EncodeToString([]byte("x:sk-s3cr3t/1")) + `"`: `"eDp[secret]Q=="`,
		`12345678`: `12345678`,
		`null`:     `null`,
	} {
		f := newFixture(t, Options{}, upstreamtest.Options{Call: failing(-32000, message, in)})
		f.targets[0].Headers = map[string]string{"Authorization": "Bearer sk-s3cr3t/1", "X-Tenant": "12345678"}
		_, err := f.call(Call{Name: "echo"})
		rpc, ok := errors.AsType[*outcome.RPCError](err)
		if !ok || rpc.Message != "the token [secret] is not known" || string(rpc.Data) != want {
			t.Errorf("Call = %#v, want the error with data %s", err, want)
		}
	}
}

func TestLongUpstreamError(t *testing.T) {
	if n := len((&outcome.RPCError{Code: 1, Message: strings.Repeat("long ", 1<<20)}).Error()); n > 400 {
		t.Errorf("the error's text has %d bytes", n)
	}
}
