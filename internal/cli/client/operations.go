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
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The paths of the API that are named twice.
const (
	itemsPath    = "/admin/tools"
	requestsPath = "/admin/requests"
	stopPath     = "/admin/stop"
	syncPath     = "/admin/sync"
	tokensPath   = "/admin/tokens"
)

// Health returns how the gateway is.
func (c *Client) Health(ctx context.Context) (Answer[decide.Health], error) {
	return get[decide.Health](ctx, c, "/admin/health", nil, nil)
}

// Config returns what is in use of the operator's files.
func (c *Client) Config(ctx context.Context) (Answer[decide.Config], error) {
	return get[decide.Config](ctx, c, "/admin/config", nil, nil)
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

// Item returns one tool, prompt or resource as it is in the store now, and what keeps the caller from
// carrying out the action on it; "": that is not asked for.
func (c *Client) Item(ctx context.Context, id tool.ID, action string) (Answer[decide.Tool], error) {
	return get[decide.Tool](ctx, c, itemPath(id), values(map[string]string{"for": action}), nil)
}

// itemPath returns where the API has an item.
func itemPath(id tool.ID) string { return approval.Link("/", id)[len("/"):] }

// A Decision is about one item, as it was seen.
type Decision struct {
	admin.Seen
	Hash tool.Hash `json:"hash,omitempty"`
}

// Decide carries out an action about an item.
func (c *Client) Decide(
	ctx context.Context, id tool.ID, action string, d Decision,
) (Answer[decide.Tool], error) {
	var body any = d
	if action == approval.ActionUndo {
		body = map[string]int64{"rev": d.Rev}
	}
	return get[decide.Tool](ctx, c, itemPath(id)+"/"+action, nil, body)
}

// A BulkDecision is about many items, each as it was seen.
type BulkDecision struct {
	Action string           `json:"action"`
	Items  []admin.BulkItem `json:"items"`
	Note   string           `json:"note,omitempty"`
	Tell   bool             `json:"tell,omitempty"`
	Shown  decide.Shown     `json:"shown,omitempty"`
}

const (
	// maxSent is how many items one request decides about: so few that it ends soon after Ctrl-C.
	maxSent = 100

	// grace is how long a request may go on after Ctrl-C, so that it is known what it did.
	grace = 10 * time.Second
)

// DecideAll carries out an action about many items, and returns what became of those that the gateway
// answered about, even if it fails. step is told how many these are after each request.
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

// decideSome sends one request. One that has begun may end although somebody interrupts.
func (c *Client) decideSome(ctx context.Context, d BulkDecision) (a admin.BulkAnswer, err error) {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	err = c.read(going, itemsPath, nil, d, &a)
	if err == nil && len(a.Tools) != len(d.Items) {
		err = fmt.Errorf("%s: the gateway's answer cannot be read: it is about %d of %d",
			c.Command, len(a.Tools), len(d.Items))
	}
	return a, err
}

// Requests returns what agents ask for: what is open, or all that is kept.
func (c *Client) Requests(ctx context.Context, all bool) (Answer[admin.Requests], error) {
	state := "open"
	if all {
		state = "all"
	}
	return get[admin.Requests](ctx, c, requestsPath, url.Values{"state": {state}}, nil)
}

// Request returns one request.
func (c *Client) Request(ctx context.Context, id string) (Answer[decide.Request], error) {
	return get[decide.Request](ctx, c, requestsPath+"/"+id, nil, nil)
}

// DecideRequest carries out a verdict about a request as it was seen; shown says how.
func (c *Client) DecideRequest(
	ctx context.Context, seen decide.Request, v request.Verdict, minutes int, reason string, shown decide.Shown,
) (Answer[decide.Request], error) {
	body := struct {
		Verdict request.Verdict `json:"verdict"`
		Hash    tool.Hash       `json:"hash,omitempty"`
		Args    string          `json:"args,omitempty"`
		Tool    string          `json:"tool"`
		Agent   request.Agent   `json:"agent"`
		Minutes int             `json:"minutes,omitempty"`
		Reason  string          `json:"reason,omitempty"`
		Shown   decide.Shown    `json:"shown,omitempty"`
	}{v, seen.Hash, seen.Args, seen.Item().String(), seen.Agent, minutes, reason, shown}
	return get[decide.Request](ctx, c, requestsPath+"/"+seen.ID+"/decide", nil, body)
}

// Stops returns what is stopped.
func (c *Client) Stops(ctx context.Context) (Answer[decide.Stops], error) {
	return get[decide.Stops](ctx, c, stopPath, nil, nil)
}

// Stop stops a server, an agent or everything.
func (c *Client) Stop(
	ctx context.Context, t stop.Target, reason string,
) (Answer[decide.Stopped], error) {
	return get[decide.Stopped](ctx, c, stopPath, nil, struct {
		stop.Target
		Reason string `json:"reason"`
	}{t, reason})
}

// UndoStop undoes a stop; every: all stops of people.
func (c *Client) UndoStop(
	ctx context.Context, t stop.Target, every bool,
) (Answer[decide.Stopped], error) {
	return get[decide.Stopped](ctx, c, stopPath+"/undo", nil, struct {
		stop.Target
		Every bool `json:"every,omitempty"`
	}{t, every})
}

// Tokens returns every agent token, the oldest first, and how they stand to the keys.
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

// MakeToken makes an agent token.
func (c *Client) MakeToken(ctx context.Context, t token.Spec) (Answer[admin.MadeToken], error) {
	a, err := get[admin.MadeToken](ctx, c, tokensPath, nil, struct {
		Name     string   `json:"name"`
		Servers  []string `json:"servers"`
		Tiers    []string `json:"tiers"`
		Toolsets []string `json:"toolsets,omitempty"`
		Admin    bool     `json:"admin"`
		Days     int      `json:"days"`
	}(t))
	return a, c.withoutTokens(err)
}

// withoutTokens says of the error of a gateway that takes no tokens how it would.
func (c *Client) withoutTokens(err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Status != http.StatusNotFound || !strings.Contains(r.Detail, "nothing here") {
		return err
	}
	who := "the gateway"
	if c.IsEmbedded() {
		who = "the gateway, as this shell's environment sets it up,"
	}
	return fmt.Errorf("%s: %s takes no agent tokens: it would with PORTCULLIS_AUTH=token set where it runs; "+
		"docs/authentication.md has the steps. With PORTCULLIS_AUTH=none agents need no token", c.Command, who)
}

// RevokeToken ends an agent token.
func (c *Client) RevokeToken(ctx context.Context, id string) (Answer[admin.RevokedToken], error) {
	return get[admin.RevokedToken](ctx, c, tokensPath+"/"+url.PathEscape(id)+"/revoke", nil, struct{}{})
}

// Sync asks every server for its tools.
func (c *Client) Sync(ctx context.Context) (Answer[decide.SyncReport], error) {
	return get[decide.SyncReport](ctx, c, syncPath, nil, struct{}{})
}

// Reconcile settles records that the store lost: by what the catalog knows of them (restore), or by what
// the store has (accept).
func (c *Client) Reconcile(ctx context.Context, how string) (Answer[decide.Reconciliation], error) {
	return get[decide.Reconciliation](ctx, c, "/admin/approvals/"+how, nil, struct{}{})
}

// Backup returns an answer whose body is a copy of the approvals.
func (c *Client) Backup(ctx context.Context) (*http.Response, error) {
	return c.send(ctx, "/admin/approvals/backup", nil, struct{}{})
}

// Try returns what an agent gets for a search.
func (c *Client) Try(
	ctx context.Context, q decide.SearchQuery,
) (Answer[decide.Explanation], error) {
	query := values(map[string]string{
		"query": q.Query, "agent": q.Agent, "claims": q.Claims, "servers": q.Servers, "tiers": q.Tiers,
		"toolsets": q.Toolsets, "path": q.Path, "limit": strconv.Itoa(q.Limit),
	})
	if q.IncludeDisabled {
		query.Set("include_disabled", "true")
	}
	return get[decide.Explanation](ctx, c, "/admin/try", query, nil)
}

// Guide returns how one client is told of an endpoint; by may be "".
func (c *Client) Guide(
	ctx context.Context, client, path string, by connect.Auth,
) (out decide.Guide, err error) {
	query := values(map[string]string{"path": path, "auth": string(by)})
	err = c.read(ctx, "/admin/connect/"+client, query, nil, &out)
	return out, err
}

// values returns parameters without those that are empty.
func values(all map[string]string) url.Values {
	out := url.Values{}
	for name, value := range all {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// EachLine calls each with the lines of the audit, the newest first, until that returns an error.
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
			return fmt.Errorf("%s: the answer broke off, and older lines are missing: %w", c.Command, err)
		case l.Kind == audit.KindIncomplete:
			return fmt.Errorf("%s: %s", c.Command, text.Line(l.Note))
		}
		if err := each(l); err != nil {
			return err
		}
	}
}
