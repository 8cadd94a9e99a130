package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// handshake detects the server's protocol. It sends server/discover, which a server of the
// stateless protocol must support. If the server refuses this or does not support that protocol, or
// a program does not answer, it sends initialize. For a legacy server, which used the handshake
// protocol before, it sends initialize first. A server may refuse
// a version that it also lists as supported, because it has instances of two versions.
func (o *operation) handshake(ctx context.Context, legacy bool) (*mcpSession, error) {
	if o.t.Handshake {
		return o.initialize(ctx)
	}
	if legacy {
		s, err := o.initialize(ctx)
		if _, own := errors.AsType[*outcome.RPCError](err); err == nil || !own && !unknownMethod(err) {
			return s, err
		}
	}
	o.askedModern = o.c.o.Now()
	s := mcpSession{modern: true, version: mcp.VersionModern, declared: o.t.declared()}
	result, err := o.discover(ctx, s)
	if slices.Contains(versionsIn(err), s.version) { // another instance answered
		result, err = o.discover(ctx, s)
	}
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && (rpc.Code == mcp.CodeVersion || !modernCode(rpc.Code)) {
		return o.fallBack(ctx, versionsIn(err))
	}
	if unknownMethod(err) {
		return o.fallBack(ctx, nil)
	}
	if o.silent(ctx, err) {
		legacy, refused := o.fallBack(ctx, nil)
		if _, own := errors.AsType[*outcome.RPCError](refused); !own {
			return legacy, refused
		}
		result, err = o.discover(ctx, s) // the program started slowly
	}
	if err != nil {
		return nil, err
	}
	var d struct {
		Supported    []string                   `json:"supportedVersions"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &d) != nil {
		return nil, brokenProtocol("server/discover: the result is not valid")
	}
	if !slices.Contains(d.Supported, mcp.VersionModern) {
		return o.fallBack(ctx, d.Supported)
	}
	s.note(d.Capabilities, o.c.o.Now())
	return &s, nil
}

// versionsIn returns the versions that a server lists when it refuses another version. It returns
// nil if err is no such refusal, or has no readable list.
func versionsIn(err error) []string {
	var d struct {
		Supported []string `json:"supported"`
	}
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && rpc.Code == mcp.CodeVersion && json.Unmarshal(rpc.Data, &d) == nil {
		return d.Supported
	}
	return nil
}

// discover requests the stateless protocol. A program may never answer, so discover waits for it
// less long than for the answer to initialize.
func (o *operation) discover(ctx context.Context, s mcpSession) (json.RawMessage, error) {
	if o.t.Command != nil {
		own, cancel := context.WithTimeout(ctx, o.c.limits.discover)
		defer cancel()
		ctx = own
	}
	return o.send(ctx, s, message{method: mcp.MethodDiscover, params: o.c.listParams(s, nil)})
}

// silent reports whether a program did not answer a request before initialize, or ended, as some
// programs of the handshake protocol do.
func (o *operation) silent(ctx context.Context, err error) bool {
	if o.t.Command == nil || ctx.Err() != nil {
		return false
	}
	exit, ok := errors.AsType[*exitError](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && o.last != nil && o.last.sent && exit != nil
}

// unknownMethod reports whether err is one of the many errors by which servers of the handshake
// protocol refuse an unknown method.
func unknownMethod(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.status/100 == 4 && !intermediaryStatus(status.status)
}

// intermediaryStatus reports whether a proxy may also set an HTTP status: a denial, a limit or a
// timeout.
func intermediaryStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons:
		return true
	}
	return false
}

// fallBack opens a session of the handshake protocol, unless the server listed its versions and
// none of them belongs to that protocol.
func (o *operation) fallBack(ctx context.Context, supported []string) (*mcpSession, error) {
	if len(supported) > 0 && !slices.ContainsFunc(legacyVersions(), func(v string) bool { return slices.Contains(supported, v) }) {
		return nil, &protocolError{outcome.ReasonVersion, "the server supports no protocol version that the gateway knows"}
	}
	o.server.noteLegacy(o.askedModern)
	return o.initialize(ctx)
}

// initialize opens a session of the handshake protocol.
func (o *operation) initialize(ctx context.Context) (*mcpSession, error) {
	params := rawjson.Object{
		{Name: "protocolVersion", Value: rawjson.Quote(mcp.VersionLegacy)},
		{Name: "capabilities", Value: o.capabilities()},
		{Name: "clientInfo", Value: o.c.info},
	}
	result, err := o.send(ctx, mcpSession{}, message{method: mcp.MethodInitialize, params: params})
	if err != nil {
		return nil, err
	}
	var r struct {
		Version      string                     `json:"protocolVersion"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil, brokenProtocol("initialize: the result is not valid")
	}
	if !slices.Contains(legacyVersions(), r.Version) {
		return nil, &protocolError{outcome.ReasonVersion, "initialize: the server chose a protocol version that the gateway does not know"}
	}
	s := mcpSession{version: r.Version, id: o.last.header.Get(mcp.HeaderSession)}
	if !validSession(s.id) {
		return nil, brokenProtocol("initialize: the session id is not valid")
	}
	s.note(r.Capabilities, o.c.o.Now())
	if _, ok := r.Capabilities["logging"]; ok {
		s.logs = new(logSetting)
	}
	if err := o.notify(ctx, s, mcp.NotificationInitialized, nil); err != nil {
		if s.id != "" {
			o.c.endLater(o.t, &s) // otherwise it stays open, and the next attempt opens another
		}
		return nil, err
	}
	return &s, nil
}

// validSession reports whether id is valid in a header: visible ASCII, not too long.
func validSession(id string) bool {
	return len(id) <= 1024 && !strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' })
}
