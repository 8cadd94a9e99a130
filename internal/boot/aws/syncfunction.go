package bootaws

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
)

// InProcess is a special name of the sync function. With it, a function syncs and sends notices in
// its own process. `sam local` needs this because it cannot start another function.
const InProcess = "in-process"

// The sources of an event for the sync function.
const (
	SourceAdmin  = "portcullis.admin"  // somebody requested a sync
	SourceOutbox = "portcullis.outbox" // a notice is due; no sync is needed
)

// A SyncFunction starts the function that syncs and sends notices.
type SyncFunction struct {
	client *awsjson.Client
	name   string
}

// Start starts the function and does not wait, because the function may run longer than an API
// request. While the function runs, Lambda refuses a second synchronous call, but queues an
// asynchronous call.
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

// sendNotice makes the function send the notice of an event, and other notices that are due.
func (f SyncFunction) sendNotice(ctx context.Context, id string) error {
	return f.Start(ctx, SourceOutbox, id)
}
