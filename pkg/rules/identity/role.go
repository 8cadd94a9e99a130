package identity

import "slices"

// A Role is a set of rights at /admin. Each role includes the roles before it.
type Role uint8

// The roles, the weakest first. The zero Role may do nothing.
const (
	NoRole   Role = iota
	Viewer        // reads
	Approver      // decides about tools, prompts and resources
	Operator      // also makes tokens, runs syncs and stops agents and servers
)

// String returns the role's name for people.
func (r Role) String() string {
	return [...]string{"none", "viewer", "approver", "operator"}[min(r, Operator)]
}

// Rights are a caller's rights at /admin. The zero Rights are none.
type Rights struct {
	Role    Role
	Servers []string // an approver decides about items of these servers; nil: all
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

// Everything returns the rights of the gateway's owner.
func Everything() Rights { return Rights{Role: Operator} }

// Roles map groups or roles of an issuer to [Rights]. The zero Roles give none.
type Roles struct {
	Viewers   []string
	Approvers []ApproverGroup
	Operators []string
}

// An ApproverGroup is a group whose members decide.
type ApproverGroup struct {
	Group   string
	Servers []string // they decide about items of these servers; nil: all
}

// Empty reports whether no group has any right.
func (r Roles) Empty() bool { return len(r.Viewers)+len(r.Approvers)+len(r.Operators) == 0 }

// RightsOf returns the rights of a member of these groups: the rights of the strongest role, and
// for an approver the servers of all their groups.
func (r Roles) RightsOf(groups []string) (out Rights) {
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
