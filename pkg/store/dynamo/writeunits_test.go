package dynamo_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	requests "github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// writes computes the cost of writes from the requests as DynamoDB does: the names and values of
// each item, in units of 1 KB, twice that in a transaction.
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

// TestWriteUnits checks the costs of requests in docs/cost.md.
func TestWriteUnits(t *testing.T) {
	b := &writes{wire: &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}}
	db := client("http://dynamodb.test", b)
	s := dynamo.New(db, "approvals", nil)
	now := time.Now().UTC().Truncate(time.Microsecond)
	agent := requests.Agent{Way: identity.WayJWT, ID: "deploy-bot", Human: "ann@example.com", Subject: "https://id.example.com 00u1a2b3c4d5e6f7g8h9"}
	ask := func(note int, args json.RawMessage) requests.Request {
		r := requests.Request{ID: requests.NewID(), Status: lock.PendingApproval, Note: strings.Repeat("n", note), Opened: now, Expires: now.Add(requests.OpenFor)}
		if args != nil {
			r.Args, r.Expires = requests.HashArgs(args), now.Add(requests.ConfirmFor)
		}
		return r.About(tool.ID{Server: "github", Name: "create_pull_request"}, tool.Hash(strings.Repeat("a", 64)))
	}
	ten := requests.List{Agent: agent, Rev: 9}
	for len(ten.List) < requests.MaxOpen {
		ten.List = append(ten.List, ask(requests.MaxNote, nil))
	}
	first, args := ask(100, nil), json.RawMessage(`{"to":"`+strings.Repeat("x", 490)+`"}`)
	call := ask(0, args)
	requestDocs := func(a requests.List, r requests.Request, args json.RawMessage) []document.Doc {
		_, data, err := a.Encode()
		require.OK(t, err)
		docs := []document.Doc{
			{Key: document.Key{Part: "ASK#" + agent.Key(), ID: "ASKED"}, Data: data, Rev: a.Rev},
			{Key: document.Key{Part: "ASK#", ID: r.ID}, Data: []byte(agent.Key()), Mark: timeText(r.Expires), Keep: r.KeepUntil()},
		}
		if args != nil {
			docs = append(docs, document.Doc{Key: document.Key{Part: "ASK#" + agent.Key(), ID: "ARGS#" + r.ID}, Data: args, Keep: r.Expires})
		}
		return docs
	}
	_, granted, err := requests.Granted{Agent: agent, List: []requests.Decision{requests.Decide(first, requests.Allowed, 60, "kim@example.com", "", now)}}.Encode()
	require.OK(t, err)
	e := notify.Event{ID: "request " + first.ID, Kind: notify.RequestMade, At: now, Server: "github", Items: []tool.ID{first.Item()}, Agent: agent.ID, Request: first.ID, Path: "/admin/requests/" + first.ID}
	_, notice, err := notify.Notice{Event: e.Fit(now), Put: now, Due: now}.Encode()
	require.OK(t, err)
	for _, test := range []struct {
		name string
		want int
		docs []document.Doc
	}{
		{"an agent's first request", 4, requestDocs(requests.List{Agent: agent, List: []requests.Request{first}}, first, nil)},
		{"its tenth, with the longest notes", 18, requestDocs(ten, ten.List[9], nil)},
		{"a call that waits, with half a KB of arguments", 6, requestDocs(requests.List{Agent: agent, List: []requests.Request{call}}, call, args)},
		{"a decision", 1, []document.Doc{{Key: document.Key{Part: "GRANT#" + agent.Key(), ID: "GRANTED"}, Data: granted}}},
		{"the use of a confirmation", 1, []document.Doc{{Key: document.Key{Part: "USED#" + call.ID, ID: "USED"}, Data: []byte(timeText(now)), Keep: now.Add(time.Hour)}}},
		{"a notice", 4, []document.Doc{
			{Key: document.Key{Part: "OUTBOX#SEEN", ID: e.ID}, Data: []byte("seen"), Keep: now.Add(notify.Remember)},
			{Key: document.Key{Part: "OUTBOX#OPEN", ID: "17"}, Data: notice, Mark: e.ID, Rev: -1 << 50, Keep: now.Add(3 * notify.GiveUpAfter)},
		}},
	} {
		b.units, b.bytes = 0, 0
		require.OK(t, s.PutDocs(t.Context(), test.docs...))
		if t.Logf("%s: %d bytes, %d units", test.name, b.bytes, b.units); b.units != test.want {
			t.Errorf("%s: %d units, docs/cost.md says %d", test.name, b.units, test.want)
		}
	}
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
