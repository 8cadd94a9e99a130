package infra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// A guard is a transport that passes the requests that a role allows. It refuses other requests as
// DynamoDB does.
type guard struct {
	t      *testing.T
	role   roletest.Role
	denied []string
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	asked, err := roletest.Of(r, body)
	if err != nil || len(asked) == 0 {
		g.t.Errorf("the role of %s could not be checked: %v", r.Header.Get("X-Amz-Target"), err)
	}
	for _, q := range append(asked, together(asked)...) {
		if !g.role.Allows(q) {
			g.denied = append(g.denied, q.String())
			return &http.Response{
				StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(`{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"not authorized"}`)),
			}, nil
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// together returns the writes of a transaction, each with the items of all writes. The reason: AWS
// does not document whether it checks the writes separately or together.
func together(writes []roletest.Request) (all []roletest.Request) {
	if len(writes) < 2 {
		return nil
	}
	var keys []string
	for _, q := range writes {
		keys = append(keys, q.LeadingKeys...)
	}
	for _, q := range writes {
		all = append(all, roletest.Request{Action: q.Action, Resource: q.Resource, LeadingKeys: keys})
	}
	return all
}

// A table contains the stores that the tests call, and the items in the table.
type table struct {
	*dynamo.Store
	requests *request.Store // uses Store, like people and box
	people   *stop.Store
	box      *notify.Outbox
	agent    request.Agent
	asked    request.List
	granted  request.Granted
	stops    stop.Stops
	record   approval.Record
	notice   notify.Notice
	id       string // of a request with arguments that is granted, but not used yet
}

// open sets the stores of x to the stores of a table.
func (x *table) open(db *dynamodb.Client, name string) {
	x.Store = dynamo.New(db, name, nil)
	x.requests, x.people, x.box = request.NewStore(x.Store, nil), stop.NewStore(x.Store), notify.NewOutbox(x.Store, nil)
}

// A driverMethod is a method of the driver, and the functions that may call it.
type driverMethod struct {
	name string // name of the method; the case follows after a comma
	may  []string
	do   func(ctx context.Context, x table) error
}

// methodsOfRequests returns all methods of a store of requests, on existing and on missing items.
func methodsOfRequests() []driverMethod {
	agents, people, both := []string{"mcp"}, []string{"admin"}, []string{"mcp", "admin"}
	return []driverMethod{
		{"List", both, func(ctx context.Context, x table) error { _, err := x.requests.List(ctx, x.agent.Key()); return err }},
		{"PutList", both, func(ctx context.Context, x table) error {
			_, err := x.requests.PutList(ctx, x.asked, "", nil)
			return err
		}},
		{"PutList, a new one with arguments", both, func(ctx context.Context, x table) error {
			a, added := x.asked, x.asked.List[0]
			added.ID = request.NewID()
			a.List = append(slices.Clone(a.List), added)
			_, err := x.requests.PutList(ctx, a, added.ID, json.RawMessage(`{"to":"ben"}`))
			return err
		}},
		{"PutList, of an old revision", both, func(ctx context.Context, x table) error {
			a := x.asked
			a.Rev += 7
			_, err := x.requests.PutList(ctx, a, "", nil)
			return conflict(err)
		}},
		{"Granted", both, func(ctx context.Context, x table) error { _, err := x.requests.Granted(ctx, x.agent.Key()); return err }},
		{"PutGranted", people, func(ctx context.Context, x table) error { _, err := x.requests.PutGranted(ctx, x.granted); return err }},
		{"PutGranted, of an agent without any", people, func(ctx context.Context, x table) error {
			g := x.granted
			g.Agent.ID, g.Rev = "not "+g.Agent.ID, 0
			_, err := x.requests.PutGranted(ctx, g)
			return err
		}},
		{"PutGranted, of an old revision", people, func(ctx context.Context, x table) error {
			g := x.granted
			g.Rev += 7
			_, err := x.requests.PutGranted(ctx, g)
			return conflict(err)
		}},
		{"Use", agents, func(ctx context.Context, x table) error {
			_, err := x.requests.Use(ctx, x.id, time.Now(), time.Now().Add(time.Hour))
			return err
		}},
		{"Use, twice", agents, func(ctx context.Context, x table) error {
			_, first := x.requests.Use(ctx, x.id, time.Now(), time.Now().Add(time.Hour))
			_, err := x.requests.Use(ctx, x.id, time.Now(), time.Now().Add(time.Hour))
			if first == nil && errors.Is(err, request.ErrUsed) {
				return nil
			}
			return errors.Join(first, err, errors.New("a confirmation was used twice"))
		}},
		{"Used", both, func(ctx context.Context, x table) error { _, err := x.requests.Used(ctx, x.id); return err }},
		{"Arguments", both, func(ctx context.Context, x table) error {
			_, err := x.requests.Arguments(ctx, x.agent.Key(), x.id)
			return err
		}},
		{"DropArguments", both, func(ctx context.Context, x table) error { return x.requests.DropArguments(ctx, x.agent.Key(), x.id) }},
		{"Whose", both, func(ctx context.Context, x table) error { _, err := x.requests.Whose(ctx, x.id); return err }},
		{"Requests", people, func(ctx context.Context, x table) error {
			list, _, err := x.requests.Requests(ctx)
			if err == nil && len(list) == 0 {
				err = errors.New("the list is empty")
			}
			return err
		}},
		{"ChangeGranted", people, func(ctx context.Context, x table) error {
			_, err := x.requests.ChangeGranted(ctx, x.agent, func(g request.Granted) (request.Granted, error) { return g.Without(x.id), nil })
			return err
		}},
	}
}

// methodsOfDecisions returns the methods that read and write decisions about calls.
func methodsOfDecisions() []driverMethod {
	agents, people, recorders := []string{"mcp"}, []string{"admin"}, []string{"sync", "admin"}
	return []driverMethod{
		{"GetWith, what decides about a call", agents, func(ctx context.Context, x table) error {
			_, docs, err := x.GetWith(ctx, x.record.ID(), stop.Key(), request.GrantedKey(x.agent.Key()))
			if err != nil {
				return err
			}
			if g, err := request.DecodeGrantedDoc(docs[1]); err != nil || len(g.List) == 0 {
				return errors.Join(err, errors.New("the grant is missing"))
			}
			return nil
		}},
		{"PutStops", people, func(ctx context.Context, x table) error { _, err := x.people.PutStops(ctx, x.stops); return err }},
		{"Put", recorders, func(ctx context.Context, x table) error {
			_, err := x.Put(ctx, x.record, &approval.Entry{Action: approval.ActionApprove, Server: x.record.Server, Tool: x.record.Tool, Actor: "kim", At: time.Now()})
			return err
		}},
		{"Put, without a line", recorders, func(ctx context.Context, x table) error { _, err := x.Put(ctx, x.record, nil); return err }},
	}
}

// methodsOfNotices returns all methods of an outbox.
func methodsOfNotices() []driverMethod {
	all, sender := []string{"mcp", "sync", "admin"}, []string{"sync"}
	return []driverMethod{
		{"Put", all, func(ctx context.Context, x table) error {
			e := x.notice.Event
			e.ID = "another-" + e.ID
			return x.box.Put(ctx, e)
		}},
		{"Put, twice", all, func(ctx context.Context, x table) error { return x.box.Put(ctx, x.notice.Event) }},
		{"Pending", sender, func(ctx context.Context, x table) error {
			_, _, err := x.box.Pending(ctx)
			return err
		}},
		{"Change", sender, func(ctx context.Context, x table) error { _, err := x.box.Change(ctx, x.notice); return err }},
		{"Change, of an old revision", sender, func(ctx context.Context, x table) error {
			x.notice.Rev += 7
			_, err := x.box.Change(ctx, x.notice)
			return taken(err)
		}},
		{"Remove", sender, func(ctx context.Context, x table) error { return x.box.Remove(ctx, x.notice) }},
		{"Remove, of an old revision", sender, func(ctx context.Context, x table) error {
			x.notice.Rev += 7
			return taken(x.box.Remove(ctx, x.notice))
		}},
	}
}

func taken(err error) error {
	if errors.Is(err, notify.ErrTaken) {
		return nil
	}
	return errors.Join(err, errors.New("want ErrTaken"))
}

func conflict(err error) error {
	if errors.Is(err, request.ErrConflict) {
		return nil
	}
	return errors.Join(err, errors.New("want ErrConflict"))
}

// TestDriverKeepsToTheRoles calls each method of the driver with the role of each function, on
// separate items. A role must allow all methods of its function and no other methods. The function
// that agents call has no method that creates a grant.
func TestDriverKeepsToTheRoles(t *testing.T) {
	roles, endpoint := roletest.Load(t), emulator.Start(t)
	wantEach[*request.Store](t, methodsOfRequests())
	wantEach[*notify.Outbox](t, methodsOfNotices())
	driverMethods := slices.Concat(methodsOfRequests(), methodsOfDecisions(), methodsOfNotices())
	name := emulator.Deploy(t, endpoint, fmt.Sprintf("drivers-%d", time.Now().UnixNano()), root+"/infra/data.yaml", map[string]string{"DeletionProtection": "false"})["TableName"]
	for n, d := range driverMethods {
		for m, function := range []string{"mcp", "sync", "admin"} {
			t.Run(d.name+"/"+function, func(t *testing.T) {
				x := newTable(t, dynamodb.NewFromConfig(emulator.Config(endpoint)), name, fmt.Sprint(3*n+m))
				g := &guard{t: t, role: roles[function]}
				db := dynamodb.NewFromConfig(emulator.Config(endpoint), func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: g} })
				x.open(db, name)
				err := d.do(t.Context(), x)
				if allowed := slices.Contains(d.may, function); allowed && (err != nil || len(g.denied) > 0) {
					t.Errorf("%v; refused: %q", err, g.denied)
				} else if !allowed && (err == nil || len(g.denied) == 0) {
					t.Errorf("the role allows the method: %v", err)
				}
			})
		}
	}
}

// wantEach checks that driverMethods contain each method of a port.
func wantEach[Port any](t *testing.T, driverMethods []driverMethod) {
	t.Helper()
	methods := reflect.TypeFor[Port]()
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		if !slices.ContainsFunc(driverMethods, func(d driverMethod) bool { return d.name == name }) {
			t.Errorf("no role is checked for %s of a %v", name, methods)
		}
	}
}

// newTable stores the items that the methods use. Each table has a separate agent and tool.
func newTable(t *testing.T, db *dynamodb.Client, of, name string) table {
	t.Helper()
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
	x := table{agent: request.Agent{Way: identity.WayToken, ID: "agent" + name}, id: request.NewID()}
	args := json.RawMessage(`{"to":"ann"}`)
	r := request.Request{ID: x.id, Args: request.HashArgs(args), Status: lock.PendingApproval, Opened: now, Expires: now.Add(request.ConfirmFor)}
	x.open(db, of)
	s, box := x.requests, x.box
	r = r.About(tool.ID{Server: "mail", Name: "send" + name}, tool.Hash(strings.Repeat("a", 64)))
	var err error
	x.asked, err = s.PutList(ctx, request.List{Agent: x.agent, List: []request.Request{r}}, x.id, args)
	require.OK(t, err)
	x.granted, err = s.PutGranted(ctx, request.Granted{Agent: x.agent, List: []request.Decision{request.Decide(r, request.Confirmed, 0, "kim", "", now)}})
	require.OK(t, err)
	x.stops, err = x.people.Stops(ctx)
	require.OK(t, err)
	x.record, err = x.Put(ctx, approval.Record{Server: r.Server, Tool: r.Tool, State: approval.Pending, Current: json.RawMessage(`{}`), CurrentHash: r.Hash}, nil)
	require.OK(t, err)
	require.OK(t, box.Put(ctx, notify.Event{ID: "notice-" + name, Kind: notify.RequestMade, At: now, Server: r.Server, Request: x.id, Path: "/admin/requests/" + x.id}))
	open, _, err := box.Pending(ctx)
	require.OK(t, err)
	x.notice = open[slices.IndexFunc(open, func(n notify.Notice) bool { return n.Event.ID == "notice-"+name })]
	return x
}
