package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/notify"
	requests "github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// writes reckons what puts cost, out of the requests as DynamoDB does: of each item its names and
// values, in units of 1 KB, twice that in a transaction.
type writes struct {
	wire         *wire
	units, bytes int
}

func (b *writes) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	type item map[string]map[string]json.RawMessage
	type put struct{ Item item }
	var in struct {
		put
		TransactItems []struct{ Put put }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	times, items := 1, []item{in.Item}
	if len(in.TransactItems) > 0 {
		times, items = 2, nil
	}
	for _, t := range in.TransactItems {
		items = append(items, t.Put.Item)
	}
	for _, it := range items {
		if it != nil {
			size := sizeOf(it)
			b.bytes += size
			b.units += times * max(1, (size+1023)/1024)
		}
	}
	return b.wire.RoundTrip(r)
}

// TestWriteUnits holds what docs/cost.md says that requests write.
func TestWriteUnits(t *testing.T) {
	b := &writes{wire: &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}}
	db := client("http://dynamodb.test", b)
	s, box := dynamo.New(db, "approvals", nil), dynamo.NewOutbox(db, "approvals", nil)
	now := time.Now().UTC().Truncate(time.Microsecond)
	agent := requests.Agent{Way: identity.WayJWT, ID: "deploy-bot", Human: "ann@example.com", Subject: "https://id.example.com 00u1a2b3c4d5e6f7g8h9"}
	ask := func(note int, args json.RawMessage) requests.Request {
		r := requests.Request{ID: requests.NewID(), Status: lock.PendingApproval, Note: strings.Repeat("n", note), Opened: now, Expires: now.Add(requests.OpenFor)}
		if args != nil {
			r.Args, r.Expires = requests.HashArgs(args), now.Add(requests.ConfirmFor)
		}
		return r.About(tool.ID{Server: "github", Name: "create_pull_request"}, tool.Hash(strings.Repeat("a", 64)))
	}
	ten := requests.Asked{Agent: agent, Rev: 9}
	for len(ten.List) < requests.MaxOpen {
		ten.List = append(ten.List, ask(requests.MaxNote, nil))
	}
	first, args := ask(100, nil), json.RawMessage(`{"to":"`+strings.Repeat("x", 490)+`"}`)
	call := ask(0, args)
	for _, test := range []struct {
		name string
		want int
		do   func(ctx context.Context) error
	}{
		{"an agent's first request", 4, func(ctx context.Context) error {
			_, err := s.PutAsked(ctx, requests.Asked{Agent: agent, List: []requests.Request{first}}, first.ID, nil)
			return err
		}},
		{"its tenth, with the longest notes", 18, func(ctx context.Context) error {
			_, err := s.PutAsked(ctx, ten, ten.List[9].ID, nil)
			return err
		}},
		{"a call that waits, with half a KB of arguments", 6, func(ctx context.Context) error {
			_, err := s.PutAsked(ctx, requests.Asked{Agent: agent, List: []requests.Request{call}}, call.ID, args)
			return err
		}},
		{"a decision", 1, func(ctx context.Context) error {
			_, err := s.PutGranted(ctx, requests.Granted{Agent: agent, List: []requests.Decision{requests.Decide(first, requests.Allowed, 60, "kim@example.com", "", now)}})
			return err
		}},
		{"the use of a confirmation", 1, func(ctx context.Context) error {
			_, err := s.Use(ctx, call.ID, now, now.Add(time.Hour))
			return err
		}},
		{"a notice", 4, func(ctx context.Context) error {
			return box.Put(ctx, notify.Event{ID: "request " + first.ID, Kind: notify.Asked, At: now, Server: "github", Items: []tool.ID{first.Item()}, Agent: agent.ID, Request: first.ID, Path: "/admin/requests/" + first.ID})
		}},
	} {
		b.units, b.bytes = 0, 0
		if err := test.do(t.Context()); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if t.Logf("%s: %d bytes, %d units", test.name, b.bytes, b.units); b.units != test.want {
			t.Errorf("%s: %d units, docs/cost.md says %d", test.name, b.units, test.want)
		}
	}
}
