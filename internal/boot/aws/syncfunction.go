package bootaws

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
)

// InProcess is the name of the sync function that makes a function sync and send in its own process.
// `sam local` needs it: there is no function to start.
const InProcess = "in-process"

// The event of the sync function names one of these sources.
const (
	SourceAdmin  = "portcullis.admin"  // somebody wants a sync
	SourceOutbox = "portcullis.outbox" // a notice is to be sent; no sync is needed
)

// A SyncFunction is the function that syncs and sends, as others start it.
type SyncFunction struct {
	client *awsjson.Client
	name   string
}

// Start starts the function and does not wait for it: it may last longer than an API's request may, and
// while one is running Lambda refuses a call that waits, but keeps one that does not until the function
// is free.
func (f SyncFunction) Start(ctx context.Context, source, id string) error {
	payload, err := json.Marshal(struct {
		Source string `json:"source"`
		ID     string `json:"id,omitempty"`
	}{source, id})
	if err != nil {
		return err
	}
	path := "/2015-03-31/functions/" + url.PathEscape(f.name) + "/invocations"
	header := http.Header{"Content-Type": {"application/json"}, "X-Amz-Invocation-Type": {"Event"}}
	if _, err = f.client.Post(ctx, path, header, payload); err != nil {
		return fmt.Errorf("start the sync function: %w", err)
	}
	return nil
}

// sendNotice has the function send the notice of an event, and what else is due.
func (f SyncFunction) sendNotice(ctx context.Context, id string) error {
	return f.Start(ctx, SourceOutbox, id)
}
