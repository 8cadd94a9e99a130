package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

func TestRoles(t *testing.T) {
	roles := identity.Roles{
		Viewers:   []string{"staff"},
		Approvers: []identity.ApproverGroup{{Group: "gate"}, {Group: "db", Servers: []string{"postgres", "mysql"}}, {Group: "web", Servers: []string{"browser"}}},
		Operators: []string{"ops"},
	}
	for _, tt := range []struct {
		groups []string
		want   identity.Rights
	}{
		{nil, identity.Rights{}},
		{[]string{"", "other"}, identity.Rights{}},
		{[]string{"staff"}, identity.Rights{Role: identity.Viewer}},
		{[]string{"staff", "gate", "db"}, identity.Rights{Role: identity.Approver}},
		{[]string{"db", "web"}, identity.Rights{Role: identity.Approver, Servers: []string{"postgres", "mysql", "browser"}}},
		{[]string{"db", "ops"}, identity.Everything()},
	} {
		if d := cmp.Diff(tt.want, roles.RightsOf(tt.groups)); d != "" {
			t.Errorf("%q: %s", tt.groups, d)
		}
	}
	if got := (identity.Roles{}).RightsOf([]string{"", "staff"}); got.Role != identity.NoRole {
		t.Errorf("roles without settings give %v", got)
	}
}

func TestDecides(t *testing.T) {
	for _, tt := range []struct {
		rights identity.Rights
		want   bool
	}{
		{identity.Rights{}, false},
		{identity.Rights{Role: identity.Viewer}, false},
		{identity.Rights{Role: identity.Approver}, true},
		{identity.Rights{Role: identity.Approver, Servers: []string{"db"}}, true},
		{identity.Rights{Role: identity.Approver, Servers: []string{"web"}}, false},
		{identity.Rights{Role: identity.Approver, Servers: []string{}}, false},
		{identity.Everything(), true},
	} {
		if got := tt.rights.Decides("db"); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.rights, got, tt.want)
		}
	}
}
