package mcphttp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

// A sessionID is the content of a handshake client's session id. The id is sealed, so the content
// needs no store.
type sessionID struct {
	id           string // random id of the session
	version      string // the negotiated version
	capabilities capabilitySet
	owner        [ownerSize]byte
	expires      time.Time
}

const (
	sessionTime = 24 * time.Hour // life time of a session id
	maxSession  = 512            // maximum length of a session id, in characters
	keyTime     = 5 * time.Second

	idSize        = 16 // random bytes
	ownerSize     = 16 // bytes of a hash
	sessionIDSize = 1 + len(mcp.VersionLegacy) + 2 + idSize + ownerSize + 8

	sessionIDFormat = 2
	oldIDFormat     = 1 // with one byte of capabilities; sessions continue after an update
)

// codeNoSession is the code that servers of the official SDKs send with a 404. The client then
// begins a new session.
const codeNoSession = -32001

// owner returns a hash of a session's owner. Without a user, it returns the hash of older versions,
// which had no users, so that sessions continue after an update. The two inputs of the hash never
// collide: the old input begins with a letter of the authentication method. The list of
// [session.Hash] begins with a length, which is less than any letter.
func owner(a identity.Agent) (out [ownerSize]byte) {
	o := a.Owner()
	sum := sha256.Sum256([]byte(o.Way + "\x00" + o.Agent))
	if o.User != "" {
		sum = session.Hash(o.Parts()...)
	}
	copy(out[:], sum[:])
	return out
}

// newSession returns a session for the agent.
func newSession(a identity.Agent, version string, capabilities json.RawMessage) sessionID {
	var id [idSize]byte
	_, _ = rand.Read(id[:]) // never fails
	return sessionID{
		id: base64.RawURLEncoding.EncodeToString(id[:]), version: version, capabilities: declaredSet(capabilities),
		owner: owner(a), expires: time.Now().Add(sessionTime),
	}
}

// bytes returns the bytes to seal. They have a constant length that fits in a header.
func (t sessionID) bytes() []byte {
	id, _ := base64.RawURLEncoding.DecodeString(t.id) // this package encoded it
	b := append([]byte{sessionIDFormat}, t.version...)
	b = binary.BigEndian.AppendUint16(b, uint16(t.capabilities))
	b = append(append(b, id...), t.owner[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(t.expires.Unix()))
}

// parseSessionID parses the bytes of a sealed id.
func parseSessionID(b []byte) (t sessionID, ok bool) {
	const capabilitiesAt = 1 + len(mcp.VersionLegacy)
	if len(b) == sessionIDSize-1 && b[0] == oldIDFormat {
		b = slices.Insert(slices.Clone(b), capabilitiesAt, 0)
		b[0] = sessionIDFormat
	}
	if len(b) != sessionIDSize || b[0] != sessionIDFormat {
		return t, false
	}
	t.version, b = string(b[1:capabilitiesAt]), b[capabilitiesAt:]
	t.capabilities, b = capabilitySet(binary.BigEndian.Uint16(b)), b[2:]
	t.id, b = base64.RawURLEncoding.EncodeToString(b[:idSize]), b[idSize:]
	t.owner, b = [ownerSize]byte(b[:ownerSize]), b[ownerSize:]
	t.expires = time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
	return t, true
}

// begin gives a session id to the client that initializes. Without a key the client gets no id and
// has no session.
func (h *handler) begin(ctx context.Context, header http.Header, t sessionID) {
	if h.opts.Seal == nil {
		return
	}
	id, err := h.opts.Seal.Seal(ctx, seal.Session, t.bytes())
	if err != nil {
		h.opts.Log.LogAttrs(ctx, slog.LevelError, "no session begins", slog.Any("error", err))
		return
	}
	header.Set(mcp.HeaderSession, id)
}

// readSession opens the session id of a request, if it has one. If the id is invalid, belongs to
// another agent or has ended, the answer makes the client initialize again.
func (h *handler) readSession(r *http.Request, a identity.Agent) (*sessionID, *mcp.Error) {
	text, refused := single(r.Header, mcp.HeaderSession)
	if refused != nil || text == "" || h.opts.Seal == nil {
		return nil, refused
	}
	none := &mcp.Error{Code: codeNoSession, Message: "session not found: initialize again", Status: http.StatusNotFound}
	if len(text) > maxSession {
		return nil, none
	}
	b, err := h.opts.Seal.Open(r.Context(), seal.Session, text)
	switch {
	case errors.Is(err, seal.ErrForged):
		return nil, none
	case err != nil:
		refused = refuse(http.StatusServiceUnavailable, "the session cannot be read at the moment")
		refused.RetryAfter, refused.Err = keyTime, err
		return nil, refused
	}
	t, ok := parseSessionID(b)
	own := owner(a)
	if !ok || subtle.ConstantTimeCompare(t.owner[:], own[:]) == 0 || !time.Now().Before(t.expires) {
		return nil, none
	}
	if ended, stored := h.opts.Ended.has(&t); ended && (stored || r.Method != http.MethodDelete) {
		return nil, none
	}
	return &t, nil
}

// A capabilitySet has a bit for each relevant capability that a client has declared.
type capabilitySet uint16

const (
	hasRoots capabilitySet = 1 << iota
	hasRootsChanges
	hasSampling
	hasSamplingContext
	hasSamplingTools
	hasElicitation
	hasForms
	hasURLs
	hasExtensions
	hasApps
)

// capabilityParts are the capabilities with their parts.
var capabilityParts = []struct {
	name  string
	bit   capabilitySet
	parts []part
}{
	{"roots", hasRoots, []part{{"listChanged", hasRootsChanges, "true"}}},
	{"sampling", hasSampling, []part{{"context", hasSamplingContext, "{}"}, {"tools", hasSamplingTools, "{}"}}},
	{"elicitation", hasElicitation, []part{{"form", hasForms, "{}"}, {"url", hasURLs, "{}"}}},
	{"extensions", hasExtensions, []part{{mcp.ExtensionApps, hasApps, "{}"}}},
}

type part struct {
	name  string
	bit   capabilitySet
	value string // its value in a declaration
}

// declaredSet returns the capabilities in a client's declaration, which is a checked object.
func declaredSet(capabilities json.RawMessage) (set capabilitySet) {
	for _, c := range capabilityParts {
		value := rawjson.Get(capabilities, c.name)
		if !isPresent(value) {
			continue
		}
		set |= c.bit
		for _, p := range c.parts {
			if v := rawjson.Get(value, p.name); isPresent(v) && string(v) != "false" {
				set |= p.bit
			}
		}
	}
	return set
}

// bytes returns the set as a client declares it.
func (s capabilitySet) bytes() json.RawMessage {
	var out rawjson.Object
	for _, c := range capabilityParts {
		if s&c.bit == 0 {
			continue
		}
		var parts rawjson.Object
		for _, p := range c.parts {
			if s&p.bit != 0 {
				parts.Add(p.name, json.RawMessage(p.value))
			}
		}
		out.Add(c.name, parts.Bytes())
	}
	return out.Bytes()
}
