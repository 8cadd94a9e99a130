package identity

import "slices"

// A Role is what somebody may do at /admin. Each role may do what those before it may.
type Role uint8

// The roles, the weakest first. The zero Role may do nothing.
const (
	NoRole   Role = iota
	Viewer        // reads
	Approver      // decides about tools, prompts and resources
	Operator      // also makes tokens, runs syncs and stops agents and servers
)

// String returns the role as people read it.
func (r Role) String() string {
	return [...]string{"none", "viewer", "approver", "operator"}[min(r, Operator)]
}

// Rights are what a caller may do at /admin. The zero Rights are none.
type Rights struct {
	Role    Role
	Servers []string // of an approver, whose items he may decide about; nil: all
}

// Decides reports whether the caller may decide about items of a server.
func (r Rights) Decides(server string) bool {
	switch r.Role {
	case Operator:
		return true
	case Approver:
		return r.Servers == nil || slices.Contains(r.Servers, server)
	case NoRole, Viewer:
	}
	return false
}

// Everything are the rights of who owns the gateway.
func Everything() Rights { return Rights{Role: Operator} }

// Roles say which groups or roles of an issuer have which [Rights]. The zero Roles give none.
type Roles struct {
	Viewers   []string
	Approvers []ApproverGroup
	Operators []string
}

// An ApproverGroup is a group whose members decide.
type ApproverGroup struct {
	Group   string
	Servers []string // about whose items; nil: all
}

// Empty reports whether no group may do anything.
func (r Roles) Empty() bool { return len(r.Viewers)+len(r.Approvers)+len(r.Operators) == 0 }

// Of returns the rights of who is in these groups: those of the strongest role, and as an approver
// about the servers of all of its groups.
func (r Roles) Of(groups []string) (out Rights) {
	if hasAny(groups, r.Operators...) {
		return Rights{Role: Operator}
	}
	if hasAny(groups, r.Viewers...) {
		out.Role = Viewer
	}
	for _, a := range r.Approvers {
		switch {
		case !hasAny(groups, a.Group):
		case a.Servers == nil:
			return Rights{Role: Approver}
		default:
			out.Role = Approver
			out.Servers = append(out.Servers, a.Servers...)
		}
	}
	return out
}
