package boot

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The gateway accepts a token made with the previous key, wherever the two keys are stored.
func TestTokenKeyIsReplaced(t *testing.T) {
	store := token.NewStore(new(documenttest.Store))
	gateway := func(source secret.Source, folder, key string, settings ...string) *Program {
		s, err := Load(environ(append(settings, "PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY="+key)))
		require.OK(t, err)
		return New(s, Stores{Tokens: store}, Options{Secrets: source, Folder: folder})
	}
	key, err := token.NewKey(oldKey)
	require.OK(t, err)
	_, text, err := (&token.Registry{Store: store, Keys: token.OneKey(key)}).Make(t.Context(), "ann", token.Spec{Name: "ci", Days: 1})
	require.OK(t, err)

	folder := t.TempDir()
	file := secret.FileText(secret.Versions{Current: secret.Version{Text: secret.New(newKey), Since: time.Now()}, Previous: secret.Version{Text: secret.New(oldKey)}})
	require.OK(t, os.WriteFile(filepath.Join(folder, "k"), []byte(file), 0o600))
	vault := &keeper{current: newKey, previous: oldKey, ref: "secretsmanager:token"}
	for name, tt := range map[string]struct {
		p     *Program
		start bool // the program starts
		want  error
	}{
		"in clear":                             {gateway(nil, "", newKey+","+oldKey), true, nil},
		"in clear, removed":                    {gateway(nil, "", newKey), true, errInvalid},
		"in a file":                            {gateway(nil, folder, "file:k"), true, nil},
		"in a file, previous key not accepted": {gateway(nil, folder, "file:k", "PORTCULLIS_TOKEN_PREVIOUS_DAYS=0"), true, errInvalid},
		"in a missing file":                    {gateway(nil, folder, "file:none"), false, os.ErrNotExist},
		"in a vault":                           {gateway(vault, "", vault.ref), true, nil},
		"in a vault that is down":              {gateway(&keeper{err: errors.New("down"), ref: vault.ref}, "", vault.ref), true, errUnavailable},
		"in a vault without a key":             {gateway(&keeper{err: secret.ErrNotFound, ref: vault.ref}, "", vault.ref), false, secret.ErrNotFound},
		"too short in a vault":                 {gateway(&keeper{current: "short", ref: vault.ref}, "", vault.ref), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			auth, err := tt.p.Authenticator(t.Context())
			if !tt.start {
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || strings.Contains(err.Error(), "short:") {
					t.Errorf("the program starts, or has an unexpected fault: %v", err)
				}
				return
			}
			require.OK(t, err)
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+text.Reveal())
			_, err = auth.Authenticate(r)
			var refused *identity.Error
			switch {
			case tt.want == nil && err != nil:
				t.Error(err)
			case tt.want != nil && (!errors.As(err, &refused) || refused.Kind != map[error]identity.Kind{errInvalid: identity.Invalid, errUnavailable: identity.Unavailable}[tt.want]):
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

var errInvalid, errUnavailable = errors.New("invalid"), errors.New("unavailable")

func TestLoadTokenKeyFaults(t *testing.T) {
	for setting, fault := range map[string]string{
		"PORTCULLIS_TOKEN_KEY=" + newKey + "," + oldKey:                    "",
		"PORTCULLIS_TOKEN_KEY=a comma, which one key of 32 bytes may hold": "",
		"PORTCULLIS_TOKEN_KEY=file:token.key":                              "",
		"PORTCULLIS_TOKEN_KEY=file":                                        "PORTCULLIS_TOKEN_KEY",
		"PORTCULLIS_TOKEN_PREVIOUS_DAYS=366":                               "PORTCULLIS_TOKEN_PREVIOUS_DAYS",
		"PORTCULLIS_TOKEN_PREVIOUS_DAYS=soon":                              "PORTCULLIS_TOKEN_PREVIOUS_DAYS",
	} {
		_, err := Load(environ([]string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey, setting}))
		if (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if v := splitTokenKeys("a comma, which one key of 32 bytes may hold"); v.Previous.Text.Reveal() != "" {
		t.Error("a key that contains a comma was split")
	}
}
