// Package lock decides whether a tool is callable and, if not, the one reason why. No other
// package decides this: search, describe, call, counts and the admin API all call [Classify].
//
// It is pure: facts in, status out. The caller collects the facts, which can fail. A fact that
// could not be read is [Unknown], and a tool with an unknown fact stays locked.
package lock

// A Status is the reason for a lock. The zero Status, [None], means callable.
type Status string

// The five reasons, in the order of their precedence, and None.
const (
	None             Status = ""
	ServerDisabled   Status = "server_disabled"
	DisabledByConfig Status = "disabled_by_config"
	DisabledByUser   Status = "disabled_by_user"
	PendingApproval  Status = "pending_approval"
	DisabledUnknown  Status = "disabled_unknown"
)

// A Fact is an answer to a question, or its absence. The zero Fact is [Unknown].
type Fact uint8

// The values of a Fact.
const (
	Unknown Fact = iota
	No
	Yes
)

// FactOf returns Yes if b is true, and No otherwise.
func FactOf(b bool) Fact {
	if b {
		return Yes
	}
	return No
}

// Not returns the answer to the opposite question.
func (f Fact) Not() Fact {
	switch f {
	case Yes:
		return No
	case No:
		return Yes
	}
	return Unknown
}

// Facts has the facts that decide whether a tool is callable, in the order in which Classify checks
// them. The zero Facts means a locked tool.
type Facts struct {
	ServerEnabled Fact // the server's "enabled" is true
	Denied        Fact // an operator rule denies the tool
	Granted       Fact // a person lets this agent call exactly this definition for a while; values other than Yes have no effect
	UserDisabled  Fact // the approval record says disabled
	Approved      Fact // exactly this definition is approved, or needs no approval
}

// UserCanLift reports whether people can lift the lock at /admin. An operator lifts the others in
// the config.
func (s Status) UserCanLift() bool { return s == DisabledByUser || s == PendingApproval }

// Statuses returns the five statuses, in the order of their precedence.
func Statuses() []Status {
	return []Status{ServerDisabled, DisabledByConfig, DisabledByUser, PendingApproval, DisabledUnknown}
}

// Classify returns why a tool is locked, or [None] if it is callable. It checks the facts in
// order, and the first bad or unknown fact decides. A bad fact gives its own status, and an unknown
// fact gives [DisabledUnknown]. So a lock that only an operator can lift is never explained by a
// later reason that the user could remove. A grant replaces the last two facts. It overrides no
// earlier fact.
func Classify(f Facts) Status {
	for _, q := range [...]struct {
		fact, fine Fact
		status     Status
	}{
		{f.ServerEnabled, Yes, ServerDisabled},
		{f.Denied, No, DisabledByConfig},
		{f.UserDisabled, No, DisabledByUser},
		{f.Approved, Yes, PendingApproval},
	} {
		if q.status == DisabledByUser && f.Granted == Yes {
			return None
		}
		switch q.fact {
		case q.fine:
		case Yes, No:
			return q.status
		default:
			return DisabledUnknown
		}
	}
	return None
}
