package identity_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

func TestNoneIsOneAgentWhateverIsSent(t *testing.T) {
	want := identity.Agent{
		ID:      "anonymous",
		Way:     identity.WayNone,
		Servers: []string{"*"},
		Tiers:   []tool.Tier{tool.Read, tool.Write, tool.Destructive},
		Admin:   true,
	}
	for _, header := range []string{"", "Bearer someone-else"} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		got, err := identity.None{}.Authenticate(r)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("with Authorization %q (-want +got):\n%s", header, d)
		}
	}
}

func TestErrorSaysKindAndCauseToTheLog(t *testing.T) {
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
		t.Error("the cause cannot be found through the error")
	}
}
