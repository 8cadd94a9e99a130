package bootaws

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
)

// InProcess is the name of the sync function with which a function syncs and sends in its own
// process. `sam local` needs it because it has no function to start.
const InProcess = "in-process"

// The event of the sync function names one of these sources.
const (
	SourceAdmin  = "portcullis.admin"  // somebody requested a sync
	SourceOutbox = "portcullis.outbox" // a notice is due; no sync is needed
)

// A SyncFunction is the function that syncs and sends, as others start it.
type SyncFunction struct {
	client *awsjson.Client
	name   string
}

// Start starts the function and does not wait, because the function may run longer than an API
// request. While a run lasts, Lambda refuses a second call that waits, but queues an asynchronous
// one.
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
