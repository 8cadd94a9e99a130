// Package mcp has the terms of the Model Context Protocol: its versions, methods, headers and error
// codes. It also reads and checks a client's message.
//
// Only [Parse] reads a client's bytes. Later code uses a [Request] and does not read the bytes
// again, so the gateway forwards exactly what it checked.
package mcp

import (
	"encoding/json"
	"slices"
	"time"
)

// Protocol versions. They are dates, and compare as strings.
const (
	VersionModern   = "2026-07-28" // the first without a handshake: every request describes itself
	VersionLegacy   = "2025-11-25" // the newest with a handshake
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
	Version20241105 = "2024-11-05"
)

// Offered returns the protocol versions that the gateway offers, newest first. The gateway does not
// support 2024-11-05, because that version has another HTTP transport.
func Offered() []string { return []string{VersionModern, VersionLegacy, Version20250618} }

// HandshakeVersion returns the version with which the gateway answers a handshake. If the gateway
// does not offer the requested version, this is the newest version of the handshake protocol.
func HandshakeVersion(requested string) string {
	if requested >= VersionModern || !slices.Contains(Offered(), requested) {
		return VersionLegacy
	}
	return requested
}

// Methods.
const (
	MethodInitialize = "initialize"
	MethodPing       = "ping"
	MethodDiscover   = "server/discover"
	MethodListTools  = "tools/list"
	MethodCallTool   = "tools/call"
	MethodListen     = "subscriptions/listen"

	MethodListPrompts   = "prompts/list"
	MethodGetPrompt     = "prompts/get"
	MethodListResources = "resources/list"
	MethodListTemplates = "resources/templates/list"
	MethodReadResource  = "resources/read"
	MethodComplete      = "completion/complete"

	MethodGetTask    = "tasks/get" // this and the next two: of the extension [ExtensionTasks]
	MethodUpdateTask = "tasks/update"
	MethodCancelTask = "tasks/cancel"

	MethodSubscribe   = "resources/subscribe" // this and the next two: handshake protocol only
	MethodUnsubscribe = "resources/unsubscribe"
	MethodSetLevel    = "logging/setLevel"

	MethodElicit    = "elicitation/create" // a server's question to its client
	MethodSample    = "sampling/createMessage"
	MethodListRoots = "roots/list"

	NotificationPrefix           = "notifications/"
	NotificationInitialized      = NotificationPrefix + "initialized"
	NotificationCancelled        = NotificationPrefix + "cancelled"
	NotificationProgress         = NotificationPrefix + "progress"
	NotificationMessage          = NotificationPrefix + "message" // a log line
	NotificationToolsChanged     = NotificationPrefix + "tools/list_changed"
	NotificationPromptsChanged   = NotificationPrefix + "prompts/list_changed"
	NotificationResourcesChanged = NotificationPrefix + "resources/list_changed"
	NotificationResourceUpdated  = NotificationPrefix + "resources/updated"
	NotificationElicited         = NotificationPrefix + "elicitation/complete"
	NotificationAcknowledged     = NotificationPrefix + "subscriptions/acknowledged"
	NotificationTask             = NotificationPrefix + "tasks"
)

// Header names, in canonical form.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
)

// Keys of _meta. Keys with the prefix concern one connection and are not passed on.
const (
	MetaPrefix             = "io.modelcontextprotocol/"
	MetaVersion            = MetaPrefix + "protocolVersion"
	MetaClientInfo         = MetaPrefix + "clientInfo"
	MetaClientCapabilities = MetaPrefix + "clientCapabilities"
	MetaServerInfo         = MetaPrefix + "serverInfo"
	MetaSubscriptionID     = MetaPrefix + "subscriptionId"
	MetaLogLevel           = MetaPrefix + "logLevel"
	MetaProgressToken      = "progressToken"
)

// Values of resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // the call continues as a task
)

// Error codes of JSON-RPC 2.0 and of MCP.
const (
	CodeParse             = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeHeaderMismatch    = -32020 // headers do not match the body
	CodeMissingCapability = -32021 // the client has not declared what the request needs
	CodeVersion           = -32022 // the protocol version is not supported
	CodeURLElicitation    = -32042 // the user has to open a page first; of version 2025-11-25 only
)

// Error codes of this gateway. They are outside the range that JSON-RPC reserves.
const (
	CodeLocked   = 4030 // a prompt or a resource is locked; data says why
	CodeUpstream = 5020 // the server of a prompt or a resource gave no answer; data has the details
)

// An Error is a refusal that the caller may read. Code, Message and Data make the JSON-RPC error.
// Err is for the log only.
type Error struct {
	Code       int             // JSON-RPC error code, or the HTTP status if there is none
	Message    string          // for the caller
	Data       json.RawMessage // error.data; nil: none
	Status     int             // HTTP status; 0: 200
	RetryAfter time.Duration   // Retry-After header, rounded up to seconds; 0: none
	Err        error           // the cause, for the log; may be nil
}

// Error returns the message for the caller.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, which is for the log.
func (e *Error) Unwrap() error { return e.Err }
