package upstream

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A forwardedMeta is the caller's metadata that the gateway passes on to the server.
type forwardedMeta struct {
	members      rawjson.Object
	capabilities json.RawMessage // nil: the caller declared none
	traceparent  string
	tracestate   string

	tasks    bool   // the caller declares the extension, and accepts a task
	progress int64  // the gateway's token; 0: the caller wants no progress
	logLevel string // the lowest log level that the caller wants; "": none
}

// forwardMeta reads the caller's _meta. It leaves out the members for the gateway itself: the
// protocol's own fields, and the progress token, which the gateway replaces with its own.
func forwardMeta(call Call) forwardedMeta {
	p := forwardedMeta{traceparent: call.Traceparent, tasks: call.Tasks}
	if c := call.Client; c.Notify != nil {
		p.logLevel = c.LogLevel
	}
	if call.Client.Ask != nil { // for callers of both protocols
		p.capabilities = call.Client.Capabilities
	}
	for _, m := range call.Meta {
		switch {
		case m.Name == mcp.MetaClientCapabilities:
			p.capabilities = m.Value
		case strings.HasPrefix(m.Name, mcp.MetaPrefix), m.Name == "progressToken":
		case m.Name == "traceparent":
			p.traceparent = rawjson.Text(m.Value)
		case m.Name == "tracestate":
			p.tracestate = rawjson.Text(m.Value)
		default:
			p.members.Add(m.Name, m.Value)
		}
	}
	p.checkTrace()
	return p
}

// checkTrace drops an invalid trace context, because the trace context also becomes a header.
func (p *forwardedMeta) checkTrace() {
	if mcp.TraceID(p.traceparent) == "" {
		p.traceparent, p.tracestate = "", ""
	}
	if len(p.tracestate) > 512 ||
		strings.ContainsFunc(p.tracestate, func(r rune) bool { return r < ' ' || r > '~' }) {
		p.tracestate = ""
	}
}

// meta returns the member _meta of the params of a request on session s, or nil if it would be
// empty.
func (c *Client) meta(s mcpSession, p forwardedMeta) rawjson.Object {
	var o rawjson.Object
	if s.modern {
		o.Add(mcp.MetaVersion, rawjson.Quote(s.version))
		o.Add(mcp.MetaClientInfo, c.info)
		declared := declaration(string(p.capabilities), p.tasks)
		o.Add(mcp.MetaClientCapabilities, []byte(declared))
		if p.logLevel != "" {
			o.Add(mcp.MetaLogLevel, rawjson.Quote(p.logLevel))
		}
	}
	if p.progress != 0 {
		o.Add("progressToken", strconv.AppendInt(nil, p.progress, 10))
	}
	if p.traceparent != "" {
		o.Add("traceparent", rawjson.Quote(p.traceparent))
	}
	if p.tracestate != "" {
		o.Add("tracestate", rawjson.Quote(p.tracestate))
	}
	if o = append(o, p.members...); len(o) == 0 {
		return nil
	}
	return rawjson.Object{{Name: "_meta", Value: o.Bytes()}}
}

// callParams returns the params of a call on session s. It passes the caller's arguments and other
// members on unchanged. It replaces the name and the metadata, and removes a request for a task of
// version 2025-11-25.
func (c *Client) callParams(s mcpSession, call Call, p forwardedMeta) rawjson.Object {
	var o rawjson.Object
	switch call.Method {
	case mcp.MethodReadResource:
		o.Add("uri", rawjson.Quote(call.Name))
	case mcp.MethodComplete: // Rest contains the argument to complete
	default:
		member := "name"
		if isTaskMethod(call.Method) {
			member = "taskId"
		}
		o.Add(member, rawjson.Quote(call.Name))
	}
	if call.Arguments != nil {
		o.Add("arguments", call.Arguments)
	}
	for _, m := range call.Rest {
		switch {
		case strings.EqualFold(m.Name, "task"):
		case m.Name == "inputResponses" && !s.modern: // the handshake protocol has no such member
		default:
			o.Add(m.Name, m.Value)
		}
	}
	return append(o, c.meta(s, p)...)
}

// listMeta returns the member _meta of the params of a list request on session s. It caches these
// members, because only a few different ones occur.
func (c *Client) listMeta(s mcpSession) rawjson.Object {
	key := mcpSession{modern: s.modern, version: s.version, declared: s.declared}
	if known, ok := c.listMetas.Load(key); ok {
		return known.(rawjson.Object)
	}
	o := c.meta(s, forwardedMeta{capabilities: json.RawMessage(s.declared), tasks: true})
	c.listMetas.Store(key, o)
	return o
}

// listParams returns the params of a tools/list on session s. cursor is the server's JSON string,
// unchanged; nil for the first page.
func (c *Client) listParams(s mcpSession, cursor json.RawMessage) rawjson.Object {
	var o rawjson.Object
	if cursor != nil {
		o.Add("cursor", cursor)
	}
	return append(o, c.listMeta(s)...)
}
