package secrettest

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestContains(t *testing.T) {
	token, verifier := New("access"), rand.Text()+rand.Text()
	found := map[string]string{
		"token":          `{"access_token": "` + token + `"}`,
		"verifier":       "code_verifier=" + verifier,
		"verifier alone": verifier,
		"verifier later": strings.Repeat("a ", 1000) + verifier + "&",
	}
	for name, before := range map[string]string{"": "", "b": "a", "bb": "ab", "bbb": "abc"} {
		code := base64.StdEncoding.EncodeToString([]byte(before + token))
		found["base64 "+name] = code
		for again, before := range map[string]string{"": "", "b": "a", "bb": "ab"} {
			found["twice "+name+again] = base64.StdEncoding.EncodeToString([]byte(before + code))
		}
	}
	for name, text := range found {
		if !contains(text) {
			t.Errorf("%s is not found in %s", name, text)
		}
	}
	for _, text := range []string{
		"", "state=" + rand.Text(), strings.Repeat("A", verifierLen), rand.Text() + rand.Text() + "A",
	} {
		if contains(text) {
			t.Errorf("a secret is found in %s", text)
		}
	}
}

// A failure names the place. It does not repeat the secret.
func TestAbsent(t *testing.T) {
	folder := t.TempDir()
	token := New("refresh")
	path := filepath.Join(folder, "below", "log")
	require.OK(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.OK(t, os.WriteFile(path, []byte("refreshed "+token), 0o600))
	r := &recorder{TB: t}
	AbsentBelow(r, folder)
	if !strings.Contains(r.said, path) || strings.Contains(r.said, mark) {
		t.Errorf("the failure says %q", r.said)
	}
}

// recorder records a failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) {
	for _, a := range args {
		format += " " + a.(string)
	}
	r.said += format
}

// `make test` searches for the same mark.
func TestMakefile(t *testing.T) {
	data, err := os.ReadFile(repo.Path("Makefile"))
	require.OK(t, err)
	if !strings.Contains(string(data), mark) {
		t.Errorf("the Makefile does not name %s", mark)
	}
}
