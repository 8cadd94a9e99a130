package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

func errNoRequest() error {
	return Refuse(http.StatusNotFound, "no request of this id is known: it was never made, or it is too long ago; the list of requests has every one that is kept")
}

func errNoRequests() error {
	return Refuse(http.StatusNotImplemented, "requests are not kept here, and nothing was done")
}

// A oneRequest is a request with whose it is and what people decided.
type oneRequest struct {
	request.Request
	agent   request.Agent
	granted request.Granted
	used    time.Time // when the confirmed call was made; zero: it was not
}

// findRequest returns the request with this id, as it is in the store now.
func (d *Service) findRequest(ctx context.Context, id string) (o oneRequest, err error) {
	if d.o.Requests == nil {
		return o, errNoRequests()
	}
	if id, err = request.ParseID(id); err != nil {
		return o, errNoRequest()
	}
	key, err := d.o.Requests.Whose(ctx, id)
	if errors.Is(err, request.ErrNotFound) {
		return o, errNoRequest()
	}
	if err != nil {
		return o, err
	}
	asked, err := d.o.Requests.Asked(ctx, key)
	if err != nil {
		return o, err
	}
	granted, err := d.o.Requests.Granted(ctx, key)
	if err != nil {
		return o, err
	}
	o = oneRequest{agent: cmp.Or(asked.Agent, granted.Agent), granted: granted}
	var is bool
	if o.Request, is = asked.Find(id); !is { // what was decided may be known for longer
		if o.Request, is = decidedOnly(granted, id); !is {
			return o, errNoRequest()
		}
	}
	return o, d.addUse(ctx, &o)
}

// decidedOnly returns a request of which the decision alone is left.
func decidedOnly(g request.Granted, id string) (r request.Request, is bool) {
	d, is := g.Of(id)
	return request.Request{ID: id, Args: d.Args, Opened: d.At, Expires: d.Ends}.About(d.Item(), d.Hash), is
}

// addUse reads whether a confirmed call was made.
func (d *Service) addUse(ctx context.Context, o *oneRequest) (err error) {
	if o.OneCall() && o.granted.Decided(o.ID) {
		o.used, err = d.o.Requests.Used(ctx, o.ID)
	}
	return err
}

// requesters returns the keys of the agents that asked, or that wait, those first whose requests expire
// last.
func (d *Service) requesters(ctx context.Context, wait bool) (keys []string, all bool, err error) {
	if d.o.Requests == nil {
		return nil, false, errNoRequests()
	}
	pointers, all, err := d.o.Requests.Requests(ctx)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(pointers, func(a, b request.Pointer) int {
		return cmp.Or(b.Expires.Compare(a.Expires), strings.Compare(a.Key, b.Key))
	})
	seen, now := map[string]bool{}, d.o.Now()
	for _, p := range pointers {
		if !seen[p.Key] && (!wait || now.Before(p.Expires)) {
			seen[p.Key] = true
			keys = append(keys, p.Key)
		}
	}
	if len(keys) > maxRequests {
		return keys[:maxRequests], false, nil
	}
	return keys, all, nil
}

// everyRequest returns the requests that are kept, of so many agents as are read at once; with wait alone
// those of agents that wait. What cannot be read of one agent is left out and in the log, and all is
// false: the others' requests wait for people.
func (d *Service) everyRequest(ctx context.Context, wait bool) (list []oneRequest, all bool, err error) {
	keys, all, err := d.requesters(ctx, wait)
	if err != nil {
		return nil, false, err
	}
	found, failed := make([][]oneRequest, len(keys)), make([]error, len(keys))
	each(len(keys), func(n int) { found[n], failed[n] = d.requestsOf(ctx, keys[n]) })
	if err := errors.Join(failed...); err != nil {
		if !slices.Contains(failed, nil) {
			return nil, false, err
		}
		d.o.Log.LogAttrs(ctx, slog.LevelError, "requests of agents cannot be read", slog.Any("error", err))
		all = false
	}
	return slices.Concat(found...), all, nil
}

// requestsOf returns what one agent asked for.
func (d *Service) requestsOf(ctx context.Context, key string) (list []oneRequest, err error) {
	asked, err := d.o.Requests.Asked(ctx, key)
	if err != nil {
		return nil, err
	}
	granted, err := d.o.Requests.Granted(ctx, key)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(asked.List)
	for _, decided := range granted.List { // which is kept for longer
		if _, is := asked.Find(decided.Request); !is {
			r, _ := decidedOnly(granted, decided.Request)
			all = append(all, r)
		}
	}
	for _, r := range all {
		o := oneRequest{Request: r, agent: cmp.Or(asked.Agent, granted.Agent), granted: granted}
		if err := d.addUse(ctx, &o); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// older sorts requests by when they were opened.
func older(a, b request.Request) int {
	return cmp.Or(a.Opened.Compare(b.Opened), strings.Compare(a.ID, b.ID))
}

// alike returns the open requests of other agents for the same definition as s, the oldest first, and of
// how many agents that is not known: what cannot be read of one of them keeps nobody from deciding. With
// declined it also returns those that were declined at this moment, since s was made: whoever did is about
// to note it with the others.
func (d *Service) alike(ctx context.Context, s requestView, declined bool) (list []oneRequest, unread int, err error) {
	keys, _, err := d.requesters(ctx, true)
	if err != nil {
		return nil, 0, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == s.one.agent.Key() })
	found, failed := make([]*oneRequest, len(keys)), make([]error, len(keys))
	each(len(keys), func(n int) {
		found[n], failed[n] = d.alikeOf(ctx, s, keys[n], declined)
		if failed[n] != nil { // two deciders must see the same ones, if they can be seen
			found[n], failed[n] = d.alikeOf(ctx, s, keys[n], declined)
		}
	})
	for n, o := range found {
		switch {
		case failed[n] != nil:
			unread++
		case o != nil:
			list = append(list, *o)
		}
	}
	if err := errors.Join(failed...); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "who else asks for the same cannot be read", slog.String("request", s.one.ID), slog.Any("error", err))
	}
	slices.SortFunc(list, func(a, b oneRequest) int { return older(a.Request, b.Request) })
	return list, unread, ctx.Err()
}

// alikeOf returns the request of one agent for the same definition as s, as alike does; nil: there is none.
func (d *Service) alikeOf(ctx context.Context, s requestView, key string, declined bool) (*oneRequest, error) {
	asked, err := d.o.Requests.Asked(ctx, key)
	if err != nil {
		return nil, err
	}
	same := func(r request.Request) bool {
		return r.Live(s.m.now) && r.Item() == s.one.Item() && r.Hash == s.one.Hash && !r.OneCall()
	}
	if !slices.ContainsFunc(asked.List, same) {
		return nil, nil
	}
	granted, err := d.o.Requests.Granted(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, r := range asked.List {
		held, is := granted.Of(r.ID)
		if same(r) && (!is || held.Verdict == request.Approved && !s.approvedBy(held) || declined && s.justDeclined(held)) {
			return &oneRequest{Request: r, agent: asked.Agent, granted: granted}, nil
		}
	}
	return nil, nil
}

// justDeclined reports whether d is a no of this moment to what everybody who asks for it is declined.
func (s requestView) justDeclined(d request.Decision) bool {
	return d.Verdict == request.Declined && d.At.After(s.one.Opened) && s.m.now.Sub(d.At) < claimTime
}

// argumentsOf returns the arguments of the call that a request is about, if they are those that it names;
// nil: they are not kept any more.
func (d *Service) argumentsOf(ctx context.Context, o oneRequest) (json.RawMessage, error) {
	arguments, err := d.o.Requests.Arguments(ctx, o.agent.Key(), o.ID)
	switch {
	case errors.Is(err, request.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case request.HashArgs(arguments) != o.Args:
		return nil, nil
	}
	return arguments, nil
}
