// Package session assigns the sessions of upstream servers to their owners. It keeps sessions in a
// [Store], where every instance of the gateway finds them.
//
// A server of the handshake protocol may give its client a session id and keep state for it: an
// open page, a transaction, a working directory. One caller's state must not reach another, so
// each [Owner] has its own session. The gateway uses the same Owner for all other state of a
// caller. A session in the memory of one instance would be lost at the next request, which may
// reach another instance.
package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Errors that a caller may have to distinguish.
var (
	ErrNotFound = errors.New("session not found")       // never stored, ended, or expired
	ErrConflict = errors.New("another session is kept") // another instance was first, or still uses it
)

// An Owner identifies the owner of a session, or of other state of a caller: two calls share it
// only if their owners are equal. Owners can be compared and used as map keys.
// identity.Agent.Owner makes one. Each field also has to be in [Owner.Parts].
type Owner struct {
	Way   string // how the agent proved its identity: two ways may use one id
	Agent string // its id; "" if Way is "", too: all agents share the session ("session": "shared")
	User  string // on whose behalf the agent acts: issuer, space, sub; "": its credential names nobody

	Client string // one of the caller's clients, by its session with the gateway; "": a client without a session
}

// Caller returns the owner without its client: the agent, and its user.
func (o Owner) Caller() Owner {
	o.Client = ""
	return o
}

// Parts returns what distinguishes the owner from all others, for [Hash]. An owner without a user
// has the same parts as in versions without users.
func (o Owner) Parts() []string {
	parts := []string{o.Way, o.Agent, o.Client}
	if o.User != "" {
		parts = append(parts, o.User)
	}
	return parts
}

// Hash returns the SHA-256 of a list of texts. It includes the length of each: "a", "bc" differs
// from "ab", "c".
func Hash(parts ...string) [sha256.Size]byte {
	var b []byte
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// wayNone is the Way of the callers of a gateway without authentication.
const wayNone = "none"

// QuotaKey returns the key that processes, streams and waiting calls of an owner are counted
// under. It is the agent's key. If every caller is one agent, it is the key of the client.
func (o Owner) QuotaKey() string {
	if o.Way == wayNone {
		return o.Way + "\x00" + o.Agent + "\x00" + o.Client
	}
	return o.Way + "\x00" + o.Agent
}

// A Key identifies the session of an owner with a server.
type Key struct {
	Server string // its name in the config
	URL    string // of its MCP endpoint; another URL means another server
	Owner  Owner
}

// ID returns the key as one text of constant length that reveals nothing of its parts.
func (k Key) ID() string {
	parts := append([]string{k.Server, k.URL}, k.Owner.Parts()...)
	if k.Owner.Client == "" && k.Owner.User == "" { // keys without either keep their old form
		parts = parts[:4]
	}
	sum := Hash(parts...)
	return hex.EncodeToString(sum[:])
}

// A Session has what a client needs to continue a session.
type Session struct {
	ID      secret.Text // Mcp-Session-Id: some servers accept any sender of it as the agent
	Version string      // the negotiated protocol version
	Expires time.Time   // to the second; deleted afterwards
}
