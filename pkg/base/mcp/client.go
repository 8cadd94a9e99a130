package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// AskTime is how long a client has to answer a question. The answer may come from a person.
const AskTime = 5 * time.Minute

// Askables are the capabilities with which a client declares that it answers questions.
func Askables() []string { return []string{"elicitation", "roots", "sampling"} }

// A Client is the sender of a request that waits for the answer. It says which notifications and
// questions the client accepts before the answer comes. The zero Client accepts none.
type Client struct {
	Capabilities json.RawMessage // the object of capabilities that it has declared; nil: none
	OpensLinks   bool            // its version has the error [CodeURLElicitation]
	Progress     bool            // it wants progress notifications for its request
	LogLevel     string          // lowest level of log messages it wants, such as "info"; "": none

	// Notify sends the client a notification: a log message, or progress, whose params have no
	// progressToken here. It does not wait for the client, and drops messages that the client reads
	// too slowly. If Notify is nil, the client accepts no notifications.
	Notify func(method string, params rawjson.Object)

	// Ask sends the client a question and returns its result or, if the client refuses, an
	// *[Error]. It waits at most until ctx ends. If Ask is nil, the client accepts no question
	// while its request is open.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}
