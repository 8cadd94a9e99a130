package identity_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestNone(t *testing.T) {
	want := identity.Agent{
		ID:      "anonymous",
		Way:     identity.WayNone,
		Servers: []string{"*"},
		Tiers:   []tool.Tier{tool.Read, tool.Write, tool.Destructive},
	}
	for _, header := range []string{"", "Bearer someone-else"} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		got, err := identity.None{}.Authenticate(r)
		require.OK(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("with Authorization %q (-want +got):\n%s", header, d)
		}
	}
}

func TestAdminKey(t *testing.T) {
	key := token.NewAdmin()
	k := identity.AdminKey{Digest: token.Digest(key), ID: "kim"}
	for _, tt := range []struct {
		name   string
		key    identity.AdminKey
		header []string
		want   identity.Kind
		good   bool
	}{
		{"the key", k, []string{"Bearer " + key.Reveal()}, 0, true},
		{"nothing", k, nil, identity.Missing, false},
		{"another key", k, []string{"Bearer " + token.NewAdmin().Reveal()}, identity.Invalid, false},
		{"the key twice", k, []string{"Bearer " + key.Reveal(), "Bearer " + key.Reveal()}, identity.Invalid, false},
		{"the digest of the key", k, []string{"Bearer " + k.Digest}, identity.Invalid, false},
		{"another scheme", k, []string{"Basic " + key.Reveal()}, identity.Missing, false},
		{"no key is set", identity.AdminKey{ID: "kim"}, []string{"Bearer " + key.Reveal()}, identity.Invalid, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/admin", nil)
			r.Header["Authorization"] = tt.header
			got, err := tt.key.Authenticate(r)
			if tt.good {
				if d := cmp.Diff(identity.Agent{ID: "kim", Way: identity.WayNone, Rights: identity.Everything()}, got); d != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
				return
			}
			e, ok := errors.AsType[*identity.Error](err)
			if !ok || e.Kind != tt.want || got.Rights.Role != identity.NoRole || strings.Contains(err.Error(), key.Reveal()) {
				t.Errorf("%+v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("key set answered 503")
	for _, tt := range []struct {
		err  identity.Error
		want string
	}{
		{identity.Error{}, "authenticate: invalid"},
		{identity.Error{Kind: identity.Missing}, "authenticate: missing"},
		{identity.Error{Kind: identity.Scope, Scopes: []string{"tools:write"}}, "authenticate: insufficient scope"},
		{identity.Error{Kind: identity.Unavailable, Err: cause}, "authenticate: unavailable: key set answered 503"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() = %q, want %q", got, tt.want)
		}
	}
	if err := error(&identity.Error{Err: cause}); !errors.Is(err, cause) {
		t.Error("errors.Is does not find the cause")
	}
}
