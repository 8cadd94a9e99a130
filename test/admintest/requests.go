package admintest

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// Asks stores an agent's request for the current definition of an item, and returns the id of the
// request. If arguments is not "", the request is for one call.
func (d *Fixture) Asks(a request.Agent, id, note, arguments string) string {
	d.T.Helper()
	item := gatewaytest.ID(d.T, id)
	v := d.States.Refresh(d.T.Context()).View(d.Agent)
	i, ok := v.Find(item)
	if !ok {
		d.T.Fatalf("%s is not in the catalog", id)
	}
	r := request.Request{Status: v.Status(i), Note: note}.About(item, v.Tool(i).Definition.Hash)
	var kept json.RawMessage
	if arguments != "" {
		kept, r.Args, r.Status = json.RawMessage(arguments), request.HashArgs(json.RawMessage(arguments)), lock.PendingApproval
	}
	var made string
	_, err := request.ChangeList(d.T.Context(), d.Requests(), a, func(asked request.List) (request.List, string, json.RawMessage, error) {
		next, held, added, err := asked.Add(r, request.Granted{}, nil, d.Clock.Now())
		if made = held.ID; !added {
			return next, "", nil, err
		}
		return next, made, kept, err
	})
	if err != nil {
		d.T.Fatal(err)
	}
	return made
}
