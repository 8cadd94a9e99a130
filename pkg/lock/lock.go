// Package lock decides whether a tool is callable and, if not, the one
// reason why. It is the only place that does: search, describe, call, counts
// and the admin API all ask [Classify].
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

// Facts are the four questions that decide, in the order in which they are
// asked. The zero Facts is a locked tool.
type Facts struct {
	ServerEnabled Fact // the server's "enabled" is true
	Denied        Fact // an operator rule denies the tool
	UserDisabled  Fact // the approval record says disabled
	Approved      Fact // approved at this exact definition, or no approval needed
}
