package decide

import (
	"fmt"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Code says in one word why a decision is refused. Programs depend on codes, so never rename a
// code.
type Code string

// The reasons, in the order in which [Obstacle] looks for them.
const (
	UnknownAction     Code = "unknown_action"
	NoHash            Code = "no_hash"
	NoRev             Code = "no_rev"
	NoteNotText       Code = "note_not_text"
	NoteTooLong       Code = "note_too_long"
	NoRole            Code = "no_role"
	OtherServer       Code = "other_server"
	Denied            Code = "denied_by_rule"
	UnknownItem       Code = "unknown_item"
	NoRecord          Code = "no_record"
	DefinitionChanged Code = "definition_changed"
	RecordChanged     Code = "record_changed"
	AlreadyApproved   Code = "already_approved"
	AlreadyBlocked    Code = "already_blocked"
	NotBlocked        Code = "not_blocked"
	TooManyBlocks     Code = "too_many_blocks"
	NoUndo            Code = "no_undo"
	TooDeep           Code = "too_deep"
	NoIssuer          Code = "four_eyes_without_issuer"
	NotSignedIn       Code = "four_eyes_not_signed_in"
	SamePerson        Code = "four_eyes_same_person"
	NotCarried        Code = "not_carried"
	Blocked           Code = "blocked"
	NotShown          Code = "not_shown"
	Severe            Code = "severe_finding"

	// Codes of requests about many items, and of failures while a decision is stored.
	NotForMany   Code = "not_for_many"
	NothingNamed Code = "nothing_named"
	TooManyItems Code = "too_many_items"
	NamedTwice   Code = "named_twice"
	Conflict     Code = "conflict"
	DiskFull     Code = "disk_full"
	NoFiles      Code = "no_files_left"
	Internal     Code = "internal"
	Unknown      Code = "unknown"

	// Codes of decisions about requests.
	NoVerdict       Code = "no_verdict"
	BadReason       Code = "bad_reason"
	BadMinutes      Code = "bad_minutes"
	OwnRequest      Code = "own_request"
	RequestDecided  Code = "request_decided"
	RequestEnded    Code = "request_ended"
	RequestOutdated Code = "request_outdated"
	NotAsShown      Code = "not_as_shown"
	AlreadyCallable Code = "already_callable"
	WrongVerdict    Code = "wrong_verdict"
	ItemLocked      Code = "item_locked"
	AgentStopped    Code = "agent_stopped"
	NotForOne       Code = "not_for_one"
	ArgumentsGone   Code = "arguments_gone"
	WouldNotHold    Code = "would_not_hold"
	TooManyDecided  Code = "too_many_decided"
)

// Codes returns every code.
func Codes() []Code {
	return []Code{
		UnknownAction, NoHash, NoRev, NoteNotText, NoteTooLong, NoRole, OtherServer, Denied, UnknownItem,
		NoRecord, DefinitionChanged, RecordChanged, AlreadyApproved, AlreadyBlocked, NotBlocked,
		TooManyBlocks, NoUndo, TooDeep, NoIssuer, NotSignedIn, SamePerson,
		NotCarried, Blocked, NotShown, Severe,
		NotForMany, NothingNamed, TooManyItems, NamedTwice, Conflict, DiskFull, NoFiles, Internal,
		Unknown, NoVerdict, BadReason, BadMinutes, OwnRequest, RequestDecided, RequestEnded, RequestOutdated,
		NotAsShown, AlreadyCallable, WrongVerdict, ItemLocked, AgentStopped, NotForOne, ArgumentsGone,
		WouldNotHold, TooManyDecided,
	}
}

// status returns the HTTP status.
func (c Code) status() int {
	switch c {
	case UnknownAction, NoHash, NoRev, NoteNotText, NoteTooLong, Severe,
		NotForMany, NothingNamed, TooManyItems, NamedTwice, NoVerdict, BadReason, BadMinutes:
		return http.StatusUnprocessableEntity
	case NoRole, OtherServer, NotSignedIn, OwnRequest:
		return http.StatusForbidden
	case UnknownItem:
		return http.StatusNotFound
	case DiskFull, NoFiles, Unknown:
		return http.StatusServiceUnavailable
	case Internal:
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}

// A ViewMethod says how a person saw the definition that they approve. "" says that they did not
// see it.
type ViewMethod string

// The ways in which a person sees a definition.
const (
	ShownOpened  ViewMethod = "opened"    // on its page of the console
	ShownPrinted ViewMethod = "printed"   // on a terminal, before the question
	ShownHash    ViewMethod = "hash"      // the person gave its hash, which proves that they read it
	ShownSeen    ViewMethod = "seen"      // the person gave a file that lists it with its hash
	ShownLock    ViewMethod = "lock_file" // approvals.lock.json has it
)

// roleSentence says who can assign the role that somebody lacks.
func roleSentence(a Actor, need identity.Role) string {
	return fmt.Sprintf("you are %q, %s, and this needs the role %s. An operator assigns roles",
		a.Name, inWords(a.Rights.Role), need)
}

// inWords returns the words for a role in a sentence.
func inWords(r identity.Role) string {
	switch r {
	case identity.NoRole:
		return "without a role"
	case identity.Viewer:
		return "a viewer"
	case identity.Approver, identity.Operator:
	}
	return "an " + r.String()
}

func noHashSentence(of string) string {
	return fmt.Sprintf("the request does not have the hash of the definition that you saw. Read "+
		"the %s, and send the hash that it shows", of)
}

func noRecordSentence(kind tool.Kind) string {
	return fmt.Sprintf("the %v has no approval record yet. The next sync makes one. Decide after "+
		"that", kind)
}

func conflictSentence(of string) string {
	return fmt.Sprintf("somebody else has just decided about the %s. Read it again, and decide "+
		"again if necessary", of)
}

// unknownSentence says that no item has the address.
func unknownSentence(kind tool.Kind) string {
	if kind == tool.Resource {
		return "no resource has this address, which ends in the SHA-256 of the URI; the list of " +
			"resources has all known addresses"
	}
	return fmt.Sprintf("no %v has this name; the list of tools has all known names", kind)
}

// recordChangedSentence describes the current record to a person who saw an earlier revision. The
// last change may come from a sync.
func recordChangedSentence(r *approval.Record) string {
	last := "nobody has decided about it"
	if r.By != "" {
		last = fmt.Sprintf("the last decision is by %s, at %s", r.By, r.At.UTC().Format(time.DateTime+" UTC"))
	}
	return fmt.Sprintf("the record of the %v has changed since you saw it: %s; %s. Decide again "+
		"if necessary", r.Kind, recordState(r), last)
}
