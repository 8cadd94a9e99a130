// Package session says whose session of an upstream server is whose, and keeps
// it where every instance of the gateway finds it: in a [Store].
//
// A server of the handshake protocol may give its client a session id and remember
// things under it: an open page, a transaction, a working directory. What one
// caller put there is not for another, so each [Owner] has a session of its own.
// The gateway uses the same Owner for all else that it keeps of a caller.
// One that only the instance that opened it knows would be gone with the next
// request, which another instance answers.
package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("session not found")       // never kept, ended, or expired
	ErrConflict = errors.New("another session is kept") // another instance was first, or uses it still
)

// An Owner names whom a session, or other state of a caller, belongs to: two calls share
// it only if their owners are equal. Owners can be compared and be keys of maps.
// identity.Agent.Owner makes one. Each field also has to be in [Owner.Parts].
type Owner struct {
	Way   string // how the agent proved who it is: two ways may know one id
	Agent string // its id; "" with no way: all agents, for a server whose operator said so
	User  string // for whom the agent acts: issuer, space, sub; "": its credential names nobody

	Client string // which of the caller's clients, by its session with the gateway; "": one without any
}

// Caller returns the owner without its client: the agent, and its user.
func (o Owner) Caller() Owner {
	o.Client = ""
	return o
}

// Parts returns what distinguishes the owner from every other one, for [Hash]. An owner
// without a user has the parts that it had in versions without users.
func (o Owner) Parts() []string {
	parts := []string{o.Way, o.Agent, o.Client}
	if o.User != "" {
		parts = append(parts, o.User)
	}
	return parts
}

// Hash returns the SHA-256 of a list of texts. Each goes in with its length: "a", "bc" is
// not "ab", "c".
func Hash(parts ...string) [sha256.Size]byte {
	var b []byte
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// wayNone is the Way of the callers of a gateway that asks nobody who they are.
const wayNone = "none"

// QuotaKey returns the key under which processes, streams and parked calls of an owner are counted
// together. It is the agent's key. Where every caller is one agent, it is the key of the client.
func (o Owner) QuotaKey() string {
	if o.Way == wayNone {
		return o.Way + "\x00" + o.Agent + "\x00" + o.Client
	}
	return o.Way + "\x00" + o.Agent
}

// A Key names the session of an owner with a server.
type Key struct {
	Server string // its name in the config
	URL    string // of its MCP endpoint; under another URL it is another server
	Owner  Owner
}

// ID returns the key as one text, of one length, that tells nothing of its parts.
func (k Key) ID() string {
	parts := append([]string{k.Server, k.URL}, k.Owner.Parts()...)
	if k.Owner.Client == "" && k.Owner.User == "" { // keys without either stay what they were
		parts = parts[:4]
	}
	sum := Hash(parts...)
	return hex.EncodeToString(sum[:])
}

// A Session is what it takes to go on with one.
type Session struct {
	ID      secret.Text // Mcp-Session-Id: whoever has it is the agent, for some servers
	Version string      // the protocol version that was agreed on
	Expires time.Time   // to the second; not kept any longer than that
}
