package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// AskTime is how long a client is given to answer a question, which may be up to a person.
const AskTime = 5 * time.Minute

// Askables are the capabilities that say that a client can be asked something.
func Askables() []string { return []string{"elicitation", "roots", "sampling"} }

// A Client is who waits for the answer to a request: what it can be told and asked before the
// answer comes. The zero Client can be told and asked nothing.
type Client struct {
	Capabilities json.RawMessage // that it has declared, an object; nil: none
	OpensLinks   bool            // its version has the error [CodeURLElicitation]
	Progress     bool            // it wants to know how far its request has come
	LogLevel     string          // the least level of log messages that it wants, such as "info"; "": none

	// Notify tells the client something: progress, whose params have no progressToken here, or a log
	// message. It does not wait for the client; what comes faster than the client reads is dropped.
	// nil: nobody listens.
	Notify func(method string, params rawjson.Object)

	// Ask asks the client and returns its result, or what it answered instead, an *[Error]. It waits no
	// longer than ctx. nil: the client cannot be asked while its request is open.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}
