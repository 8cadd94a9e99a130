package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

const sessionHeader = "Mcp-Session-Id"

// handshake finds out how to speak to the server: server/discover first, which a
// server of the stateless era must know, then initialize. A server that is remembered to be of
// the handshake era is not asked for the other unless it is not what it was.
func (o *op) handshake(ctx context.Context, legacy bool) (*leg, error) {
	if legacy {
		l, err := o.initialize(ctx)
		if _, own := errors.AsType[*RPCError](err); err == nil || !own && !o.olderServer(err) {
			return l, err
		}
	}
	o.asked = o.c.o.Now()
	l := leg{modern: true, version: versionModern}
	result, err := o.send(ctx, l, message{method: "server/discover", params: listOnly(o.c.meta(l, passed{}))})
	if err != nil {
		var supported []string
		switch rpc, ok := errors.AsType[*RPCError](err); {
		case ok && rpc.Code == codeVersion:
			supported = supportedIn(rpc.Data)
		case ok && modernCode(rpc.Code):
			return nil, err
		case ok, o.olderServer(err):
		default:
			return nil, err
		}
		return o.fallBack(ctx, supported)
	}
	var d struct {
		Supported    []string                   `json:"supportedVersions"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &d) != nil {
		return nil, brokenProtocol("server/discover: the result is not one")
	}
	if !slices.Contains(d.Supported, versionModern) {
		return o.fallBack(ctx, d.Supported)
	}
	_, l.tools = d.Capabilities["tools"]
	return &l, nil
}

// listOnly returns params that hold meta and nothing else.
func listOnly(meta json.RawMessage) json.RawMessage {
	return rawjson.Object{{Name: "_meta", Value: meta}}.Bytes()
}

// supportedIn reads the versions out of the data of a version error.
func supportedIn(data json.RawMessage) []string {
	var d struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(data, &d) // what does not read supports nothing known
	return d.Supported
}

// olderServer tells the many answers with which servers of the handshake era refuse
// a method that they do not know. A denial, a limit or a timeout is none.
func (o *op) olderServer(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.status/100 == 4 && !slices.Contains([]int{
		http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons,
	}, status.status)
}

// fallBack opens a session of the handshake era, unless the server said which versions
// it supports and none of that era is among them.
func (o *op) fallBack(ctx context.Context, supported []string) (*leg, error) {
	if len(supported) > 0 && !slices.ContainsFunc(legacyVersions(), func(v string) bool { return slices.Contains(supported, v) }) {
		return nil, &protocolError{outcome.ReasonVersion, "the server supports no protocol version that the gateway knows"}
	}
	o.peer.older(o.asked)
	return o.initialize(ctx)
}

// initialize opens a session of the handshake era.
func (o *op) initialize(ctx context.Context) (*leg, error) {
	params := rawjson.Object{
		{Name: "protocolVersion", Value: rawjson.Quote(versionLegacy)},
		{Name: "capabilities", Value: json.RawMessage("{}")},
		{Name: "clientInfo", Value: o.c.info},
	}
	result, err := o.send(ctx, leg{}, message{method: "initialize", params: params.Bytes()})
	if err != nil {
		return nil, err
	}
	var r struct {
		Version      string                     `json:"protocolVersion"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil, brokenProtocol("initialize: the result is not one")
	}
	if !slices.Contains(legacyVersions(), r.Version) {
		return nil, &protocolError{outcome.ReasonVersion, "initialize: the server chose a protocol version that the gateway does not know"}
	}
	l := leg{version: r.Version, session: o.trail.last.header.Get(sessionHeader)}
	if !validSession(l.session) {
		return nil, brokenProtocol("initialize: the session id is not one")
	}
	_, l.tools = r.Capabilities["tools"]
	if err := o.notify(ctx, l, "notifications/initialized", []byte("{}")); err != nil {
		if l.session != "" {
			o.c.hangUpLater(o.t, &l) // or it would stay open, and the next attempt opens another
		}
		return nil, err
	}
	return &l, nil
}

// validSession tells an id that may stand in a header: visible ASCII, not too long.
func validSession(id string) bool {
	for i := range len(id) {
		if id[i] < '!' || id[i] > '~' {
			return false
		}
	}
	return len(id) <= 1024
}
