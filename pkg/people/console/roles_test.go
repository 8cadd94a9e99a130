package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// as gives every caller these rights.
func as(h *fixture, rights identity.Rights) {
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "kim", Rights: rights}, nil
	}
	h.Open()
}

func TestRoleTooWeak(t *testing.T) {
	h := newFixture(t)
	as(h, identity.Rights{Role: identity.Viewer})
	detail := h.Problem(http.StatusForbidden, "/admin/tools/fs/read_file/disable", "{}")
	for _, want := range []string{`you are "kim", a viewer`, "the role approver", "nothing was done"} {
		if !strings.Contains(detail, want) {
			t.Errorf("%q does not say %q", detail, want)
		}
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q, want nothing decided", s)
	}
}

func TestApproverOfOtherServers(t *testing.T) {
	h := newFixture(t)
	as(h, identity.Rights{Role: identity.Approver, Servers: []string{"mail", "postgres"}})
	detail := h.Problem(http.StatusForbidden, "/admin/tools/fs/read_file/disable", "{}")
	if want := "you decide about items of mail, postgres, and this item is of fs. Ask somebody who decides about fs"; !strings.Contains(detail, want) {
		t.Errorf("%q does not say %q", detail, want)
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q, want nothing decided", s)
	}
}
