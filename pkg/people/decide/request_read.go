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
	return Refuse(http.StatusNotFound, "no request has this id: it never existed, or it is too "+
		"old; the list of requests has all stored requests")
}

func errNoRequests() error {
	return Refuse(http.StatusNotImplemented, "this gateway stores no requests, and nothing was done")
}

// An agentRequest is a request with its agent and the decisions of people.
type agentRequest struct {
	request.Request
	agent   request.Agent
	granted request.Granted
	used    time.Time // when the confirmed call was made; zero if it was not made
}

// findRequest reads the request with this id from the store.
func (d *Service) findRequest(ctx context.Context, id string) (o agentRequest, err error) {
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
	asked, err := d.o.Requests.List(ctx, key)
	if err != nil {
		return o, err
	}
	granted, err := d.o.Requests.Granted(ctx, key)
	if err != nil {
		return o, err
	}
	o = agentRequest{agent: cmp.Or(asked.Agent, granted.Agent), granted: granted}
	var is bool
	if o.Request, is = asked.Find(id); !is { // decisions may be stored longer than requests
		if o.Request, is = decidedOnly(granted, id); !is {
			return o, errNoRequest()
		}
	}
	return o, d.addUse(ctx, &o)
}

// decidedOnly returns a request for which only the decision is still stored.
func decidedOnly(g request.Granted, id string) (r request.Request, is bool) {
	d, is := g.Find(id)
	return request.Request{ID: id, Args: d.Args, Opened: d.At, Expires: d.Ends}.About(d.Item(), d.Hash), is
}

// addUse reads whether the confirmed call was made.
func (d *Service) addUse(ctx context.Context, o *agentRequest) (err error) {
	if o.OneCall() && o.granted.Decided(o.ID) {
		o.used, err = d.o.Requests.Used(ctx, o.ID)
	}
	return err
}

// requesters returns the keys of at most maxRequests agents with requests. If wait is set, it
// returns only agents with requests that have not expired. The agent whose request expires last
// comes first. all is false if there are more agents.
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

// everyRequest returns the stored requests of the agents that [Service.requesters] returns. If the
// requests of an agent cannot be read, everyRequest logs the error, skips the agent and returns
// false for all. People still see the other requests.
func (d *Service) everyRequest(ctx context.Context, wait bool) (list []agentRequest, all bool, err error) {
	keys, all, err := d.requesters(ctx, wait)
	if err != nil {
		return nil, false, err
	}
	found, failed := make([][]agentRequest, len(keys)), make([]error, len(keys))
	forEach(len(keys), func(n int) { found[n], failed[n] = d.requestsOf(ctx, keys[n]) })
	if err := errors.Join(failed...); err != nil {
		if !slices.Contains(failed, nil) {
			return nil, false, err
		}
		d.o.Log.LogAttrs(ctx, slog.LevelError, "requests of agents not read", slog.Any("error", err))
		all = false
	}
	return slices.Concat(found...), all, nil
}

// requestsOf returns the requests of one agent.
func (d *Service) requestsOf(ctx context.Context, key string) (list []agentRequest, err error) {
	asked, err := d.o.Requests.List(ctx, key)
	if err != nil {
		return nil, err
	}
	granted, err := d.o.Requests.Granted(ctx, key)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(asked.List)
	for _, decided := range granted.List { // decisions may be stored longer than requests
		if _, is := asked.Find(decided.Request); !is {
			r, _ := decidedOnly(granted, decided.Request)
			all = append(all, r)
		}
	}
	for _, r := range all {
		o := agentRequest{Request: r, agent: cmp.Or(asked.Agent, granted.Agent), granted: granted}
		if err := d.addUse(ctx, &o); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// older compares requests by the time when they were made.
func older(a, b request.Request) int {
	return cmp.Or(a.Opened.Compare(b.Opened), strings.Compare(a.ID, b.ID))
}

// sameRequests returns the open requests of other agents for the same definition as s, oldest
// first. unread is the number of agents whose requests cannot be read; people can decide
// nevertheless. If declined is set, sameRequests also returns requests that were declined within
// the last minute: the same decision is about to be stored with the others.
func (d *Service) sameRequests(ctx context.Context, s requestView, declined bool) (list []agentRequest, unread int, err error) {
	keys, _, err := d.requesters(ctx, true)
	if err != nil {
		return nil, 0, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == s.one.agent.Key() })
	found, failed := make([]*agentRequest, len(keys)), make([]error, len(keys))
	forEach(len(keys), func(n int) {
		found[n], failed[n] = d.sameRequestOf(ctx, s, keys[n], declined)
		if failed[n] != nil { // try again, so that two people who decide see the same requests
			found[n], failed[n] = d.sameRequestOf(ctx, s, keys[n], declined)
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
		d.o.Log.LogAttrs(ctx, slog.LevelError, "requests for the same definition not read", slog.String("request", s.one.ID), slog.Any("error", err))
	}
	slices.SortFunc(list, func(a, b agentRequest) int { return older(a.Request, b.Request) })
	return list, unread, ctx.Err()
}

// sameRequestOf returns the request of one agent for the same definition as s; nil if there is
// none.
func (d *Service) sameRequestOf(ctx context.Context, s requestView, key string, declined bool) (*agentRequest, error) {
	asked, err := d.o.Requests.List(ctx, key)
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
		decision, is := granted.Find(r.ID)
		if same(r) && (!is || decision.Verdict == request.Approved && !s.approvedBy(decision) || declined && s.justDeclined(decision)) {
			return &agentRequest{Request: r, agent: asked.Agent, granted: granted}, nil
		}
	}
	return nil, nil
}

// justDeclined reports whether d declined the definition for everybody a moment ago.
func (s requestView) justDeclined(d request.Decision) bool {
	return d.Verdict == request.Declined && d.At.After(s.one.Opened) && s.m.now.Sub(d.At) < claimTime
}

// argumentsOf returns the stored arguments of the requested call, or nil if they have expired or do
// not match the hash in the request.
func (d *Service) argumentsOf(ctx context.Context, o agentRequest) (json.RawMessage, error) {
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
