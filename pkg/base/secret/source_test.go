package secret_test

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

func TestEnv(t *testing.T) {
	s := secret.Env{Lookup: func(name string) (string, bool) {
		return map[string]string{"TOKEN": "v"}[name], name == "TOKEN" || name == "EMPTY"
	}}
	if v, err := s.Secret(t.Context(), "env:TOKEN"); v != "v" || err != nil {
		t.Errorf("Secret = %q, %v", v, err)
	}
	for _, ref := range []string{"env:NONE", "env:EMPTY", "ssm:/x", "TOKEN", ""} {
		if v, err := s.Secret(t.Context(), ref); v != "" || !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("Secret(%q) = %q, %v; want no such secret", ref, v, err)
		}
	}
	t.Setenv("PORTCULLIS_TEST_SECRET", "from the environment")
	if v, err := (secret.Env{}).Secret(t.Context(), "env:PORTCULLIS_TEST_SECRET"); v != "from the environment" || err != nil {
		t.Errorf("Secret = %q, %v", v, err)
	}
}

func TestExpand(t *testing.T) {
	value := func(ref string) (string, error) {
		if ref == "env:GONE" {
			return "", secret.ErrNotFound
		}
		return "<" + ref + ">", nil
	}
	for in, want := range map[string]string{
		"": "", "plain $ {x}": "plain $ {x}", "Bearer ${env:T}": "Bearer <env:T>", "${ssm:/a}-${env:B}": "<ssm:/a>-<env:B>", "${}": "<>",
	} {
		if got, err := secret.Expand(in, value); got != want || err != nil {
			t.Errorf("Expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]error{"a ${env:T": secret.ErrUnclosed, "${env:GONE} ${": secret.ErrNotFound} {
		if got, err := secret.Expand(in, value); got != "" || !errors.Is(err, want) {
			t.Errorf("Expand(%q) = %q, %v; want %v", in, got, err, want)
		}
	}
}

func TestReference(t *testing.T) {
	for in, want := range map[string]string{
		"${ssm:/x}": "ssm:/x", "${env:T}": "env:T", "ssm:/x": "ssm:/x", "secretsmanager:a/b": "secretsmanager:a/b",
		"env:T": "", "plain": "", "${env:T": "", "${env:T} more": "", "": "",
	} {
		if got, ok := secret.Reference(in); ok != (want != "") || ok && got != want {
			t.Errorf("Reference(%q) = %q, %v", in, got, ok)
		}
	}
}
