package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Operation is a path of the API, with %s for each name in it, and the type of the answer.
type Operation[T any] string

// The operations of a single request.
const (
	Health        Operation[decide.Health]          = "/admin/health"
	Config        Operation[decide.Config]          = "/admin/config"
	Decide        Operation[decide.Tool]            = "%s/%s" // see [ItemPath]
	Requests      Operation[admin.Requests]         = "/admin/requests"
	Request       Operation[decide.Request]         = "/admin/requests/%s"
	DecideRequest Operation[decide.Request]         = "/admin/requests/%s/decide"
	Stops         Operation[decide.Stops]           = "/admin/stop"
	Stop          Operation[decide.Stopped]         = "/admin/stop"
	UndoStop      Operation[decide.Stopped]         = "/admin/stop/undo"
	Server        Operation[decide.ServerDetail]    = "/admin/servers/%s"
	StartSignIn   Operation[decide.SignInStart]     = "/admin/servers/%s/sign-in"
	FinishSignIn  Operation[decide.SignedIn]        = "/admin/sign-in"
	SignOut       Operation[decide.SignedOut]       = "/admin/servers/%s/sign-out"
	Messages      Operation[decide.ServerMessages]  = "/admin/servers/%s/messages"
	Restart       Operation[decide.RestartedServer] = "/admin/servers/%s/restart"
	RevokeToken   Operation[admin.RevokedToken]     = tokensPath + "/%s/revoke"
	Sync          Operation[decide.SyncReport]      = syncPath
	Reconcile     Operation[decide.Reconciliation]  = "/admin/approvals/%s"
	Call          Operation[decide.CallAnswer]      = callPath
	Try           Operation[decide.Explanation]     = "/admin/try"

	item      Operation[decide.Tool]      = "%s"
	makeToken Operation[admin.MadeToken]  = tokensPath
	guide     Operation[decide.Guide]     = "/admin/connect/%s"
	decideAll Operation[admin.BulkAnswer] = itemsPath
)

// The paths that the code uses twice.
const (
	itemsPath  = "/admin/tools"
	syncPath   = "/admin/sync"
	callPath   = "/admin/call"
	tokensPath = "/admin/tokens"
)

// Empty is the body of a change that needs no parameters.
type Empty struct{}

// Do carries out the operation. It sends the body as JSON; a nil body means that the operation only
// reads.
func (o Operation[T]) Do(
	ctx context.Context, c *Client, query url.Values, body any, names ...any,
) (a Answer[T], err error) {
	err = c.read(ctx, fmt.Sprintf(string(o), names...), query, body, &a)
	return a, err
}

// Servers returns every configured server.
func (c *Client) Servers(ctx context.Context) (all []decide.Server, err error) {
	err = readPages(ctx, c, "/admin/servers", url.Values{}, 0, func(p struct {
		Servers []decide.Server
		decide.Next
	}) (int, string) {
		all = append(all, p.Servers...)
		return len(all), p.Next.Next
	})
	return all, err
}

// Item returns the current state of one tool, prompt or resource in the store. If action is not "",
// the answer also says what prevents the caller from this action.
func (c *Client) Item(ctx context.Context, id tool.ID, action string) (Answer[decide.Tool], error) {
	return item.Do(ctx, c, Values(map[string]string{"for": action}), nil, ItemPath(id))
}

// ItemPath returns the API's path of an item.
func ItemPath(id tool.ID) string { return approval.Link("/", id)[len("/"):] }

// A Decision is about one item in the state that the person saw.
type Decision struct {
	admin.DecisionBody
	Hash tool.Hash `json:"hash,omitempty"`
}

// A BulkDecision is about many items in the states that the person saw.
type BulkDecision struct {
	Action string            `json:"action"`
	Items  []admin.BulkItem  `json:"items"`
	Note   string            `json:"note,omitempty"`
	Tell   bool              `json:"tell,omitempty"`
	Shown  decide.ViewMethod `json:"shown,omitempty"`
}

const (
	// maxSent is the maximum number of items in one request. It is small so that a request ends
	// soon after Ctrl-C.
	maxSent = 100

	// grace is how long a request may continue after Ctrl-C, so that its result is known.
	grace = 10 * time.Second
)

// DecideAll carries out an action on many items. Even if it fails, it returns the results of all
// items that the gateway answered. After each request it calls step with the number of these items.
func (c *Client) DecideAll(
	ctx context.Context, d BulkDecision, step func(n int),
) (all admin.BulkAnswer, err error) {
	all.Tools = []admin.BulkResult{}
	for left := d.Items; len(left) > 0; left = left[len(d.Items):] {
		if ctx.Err() != nil {
			return all, fmt.Errorf("%s: interrupted; nothing was decided about the last %d", c.Command, len(left))
		}
		d.Items = left[:min(len(left), maxSent)]
		answer, err := c.decideSome(ctx, d)
		if err != nil {
			return all, err
		}
		all.Tools, all.Count = append(all.Tools, answer.Tools...), all.Count+answer.Count
		step(len(all.Tools))
	}
	return all, nil
}

// decideSome sends one request. A request that has begun may finish after an interrupt.
func (c *Client) decideSome(ctx context.Context, d BulkDecision) (a admin.BulkAnswer, err error) {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	answer, err := decideAll.Do(going, c, nil, d)
	if a = answer.Value; err == nil && len(a.Tools) != len(d.Items) {
		err = fmt.Errorf("%s: the gateway's answer cannot be read: it is about %d of %d",
			c.Command, len(a.Tools), len(d.Items))
	}
	return a, err
}

// Tokens returns every agent token, the oldest first, with the status of its key.
func (c *Client) Tokens(ctx context.Context) (all admin.TokenList, err error) {
	err = readPages(ctx, c, tokensPath, url.Values{}, 0, func(p admin.TokenList) (int, string) {
		all.Tokens, all.Keys = append(all.Tokens, p.Tokens...), p.Keys
		return len(all.Tokens), p.Next.Next
	})
	slices.SortStableFunc(all.Tokens, func(a, b admin.AgentToken) int {
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	return all, c.withoutTokens(err)
}

// MakeToken creates an agent token.
func (c *Client) MakeToken(ctx context.Context, t token.Spec) (Answer[admin.MadeToken], error) {
	a, err := makeToken.Do(ctx, c, nil, t)
	return a, c.withoutTokens(err)
}

// withoutTokens adds a hint to the error of a gateway without agent tokens: how to enable them.
func (c *Client) withoutTokens(err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Status != http.StatusNotFound || !strings.Contains(r.Detail, "nothing here") {
		return err
	}
	who := "the gateway"
	if c.IsEmbedded() {
		who = "the gateway, as this shell's environment sets it up,"
	}
	return fmt.Errorf("%s: %s accepts no agent tokens: set PORTCULLIS_AUTH=token where it runs; "+
		"docs/agent-tokens.md has the steps. With PORTCULLIS_AUTH=none agents need no token", c.Command, who)
}

// Backup returns an answer whose body is a copy of the approvals.
func (c *Client) Backup(ctx context.Context) (*http.Response, error) {
	return c.send(ctx, "/admin/approvals/backup", nil, Empty{})
}

// Guide returns how to connect one client to an endpoint. The argument by may be "".
func (c *Client) Guide(
	ctx context.Context, client, path string, by connect.Auth,
) (decide.Guide, error) {
	query := Values(map[string]string{"path": path, "auth": string(by)})
	a, err := guide.Do(ctx, c, query, nil, client)
	return a.Value, err
}

// Values returns the parameters that are not empty.
func Values(all map[string]string) url.Values {
	out := url.Values{}
	for name, value := range all {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// EachLine calls the function each with the lines of the audit, the newest first, until that
// function returns an error.
func (c *Client) EachLine(
	ctx context.Context, q decide.AuditQuery, each func(audit.Line) error,
) error {
	res, err := c.send(ctx, "/admin/audit.jsonl", q.Values(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for lines := json.NewDecoder(res.Body); ; {
		var l audit.Line
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: the answer ended early, and older lines are missing: %w",
				c.Command, err)
		case l.Kind == audit.KindIncomplete:
			return fmt.Errorf("%s: %s", c.Command, text.Line(l.Note))
		}
		if err := each(l); err != nil {
			return err
		}
	}
}
