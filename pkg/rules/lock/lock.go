// Package lock decides whether a tool is callable and, if not, the one
// reason why. It is the only place that does: search, describe, call, counts
// and the admin API all call [Classify].
//
// It is pure: facts in, status out. Gathering the facts, which can fail, is
// the caller's work; a fact that could not be gathered is [Unknown], and a tool
// with an unknown fact stays locked.
package lock

// A Status is why a tool is locked. The zero Status, [None], means callable.
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

// A Fact is an answer that may be missing. The zero Fact is [Unknown].
type Fact uint8

// What is known of one question.
const (
	Unknown Fact = iota
	No
	Yes
)

// FactOf returns Yes or No.
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

// Facts are the questions that decide, in the order in which they are
// asked. The zero Facts is a locked tool.
type Facts struct {
	ServerEnabled Fact // the server's "enabled" is true
	Denied        Fact // an operator rule denies the tool
	Granted       Fact // a person lets this agent call this very definition for a while; what is not Yes decides nothing
	UserDisabled  Fact // the approval record says disabled
	Approved      Fact // approved at this exact definition, or no approval needed
}

// UserCanLift reports whether people lift the lock at /admin, and not an operator in the config alone.
func (s Status) UserCanLift() bool { return s == DisabledByUser || s == PendingApproval }

// Statuses returns the five statuses, in the order of their precedence.
func Statuses() []Status {
	return []Status{ServerDisabled, DisabledByConfig, DisabledByUser, PendingApproval, DisabledUnknown}
}

// Classify returns why a tool is locked, or [None] if it is callable. It asks the
// questions in their order; the first fact that is not known to be fine
// decides: by its own status if it is known to be bad, and [DisabledUnknown] if it is not
// known, so that what only an operator can change is never explained by a later
// reason that the user could remove. A grant stands in the place of the two last answers, and over
// none of those before it.
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
