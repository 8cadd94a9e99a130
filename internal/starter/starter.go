// Package starter starts the sync function out of another one. It is apart from package boot, so that
// the sync function does not link the client.
package starter

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/portcullis-mcp/portcullis/internal/boot"
)

// inProcess is what stands in the place of the function's name where there is none to start, as under
// `sam local`.
const inProcess = "in-process"

// A Starter starts the sync function.
type Starter struct {
	client   *lambda.Client
	function string
}

// New returns what starts the function that the settings name; nil if they name none.
func New(f *boot.Function) *Starter {
	if name := f.Settings.SyncFunction; name != "" && name != inProcess {
		return &Starter{lambda.NewFromConfig(f.AWS.Config), name}
	}
	return nil
}

// An Order is the event by which one function starts the other.
type Order struct {
	Source string `json:"source"`       // who wants it, and what: portcullis.admin is a sync
	ID     string `json:"id,omitempty"` // what it is about
}

// Start starts the function and does not wait for it: it may last longer than an API's request may,
// and while it runs Lambda refuses a call that waits, but keeps one that does not until it is free.
func (s *Starter) Start(ctx context.Context, o Order) error {
	payload, err := json.Marshal(o)
	if err == nil {
		_, err = s.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &s.function, InvocationType: types.InvocationTypeEvent, Payload: payload})
	}
	if err != nil {
		return fmt.Errorf("start the sync function: %w", err)
	}
	return nil
}
