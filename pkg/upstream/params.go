package upstream

import (
	"encoding/json"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// The keys of _meta that concern one leg only.
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaClientInfo   = metaPrefix + "clientInfo"
	metaCapabilities = metaPrefix + "clientCapabilities"
)

// A passed is the metadata of the caller that goes on to the next leg.
type passed struct {
	members      rawjson.Object
	capabilities json.RawMessage // nil: the caller declared none
	traceparent  string
	tracestate   string
}

// passOn reads the caller's _meta. What is addressed to the gateway itself stays here:
// the protocol's own fields, and the progress token, since no progress is passed back.
func passOn(call Call, inParams json.RawMessage) (passed, error) {
	p := passed{traceparent: call.Meta.Traceparent, tracestate: call.Meta.Tracestate}
	raw := call.Meta.Raw
	if raw == nil {
		raw = inParams
	}
	if raw == nil || string(raw) == "null" {
		p.checkTrace()
		return p, nil
	}
	o, err := rawjson.Split(raw, rawjson.Lenient)
	for _, m := range o {
		switch {
		case m.Name == metaCapabilities:
			p.capabilities = m.Value
		case strings.HasPrefix(m.Name, metaPrefix), m.Name == "progressToken":
		case m.Name == "traceparent":
			p.traceparent = rawjson.Text(m.Value)
		case m.Name == "tracestate":
			p.tracestate = rawjson.Text(m.Value)
		default:
			p.members.Add(m.Name, m.Value)
		}
	}
	p.checkTrace()
	return p, err
}

// checkTrace drops a trace context that is not one: it also becomes a header.
func (p *passed) checkTrace() {
	if !validTraceparent(p.traceparent) {
		p.traceparent, p.tracestate = "", ""
	}
	if len(p.tracestate) > 512 || strings.ContainsFunc(p.tracestate, func(r rune) bool { return r < ' ' || r > '~' }) {
		p.tracestate = ""
	}
}

// validTraceparent tells a traceparent of W3C Trace Context, version 00.
func validTraceparent(s string) bool {
	parts := strings.Split(s, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return false
	}
	notHex := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }
	return !strings.ContainsFunc(strings.Join(parts, ""), notHex) &&
		strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

// meta returns the _meta of a request on mcpSession l, nil if there is nothing to say.
func (c *Client) meta(s mcpSession, p passed) json.RawMessage {
	var o rawjson.Object
	if s.modern {
		o.Add(metaVersion, rawjson.Quote(s.version))
		o.Add(metaClientInfo, c.info)
		o.Add(metaCapabilities, narrow(p.capabilities))
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
	return o.Bytes()
}

// narrow returns the caller's capabilities without those that need more of a gateway than
// passing a result on: tasks, which are asked for again later, and user interfaces.
func narrow(capabilities json.RawMessage) json.RawMessage {
	o, _ := rawjson.Split(capabilities, rawjson.Lenient) // what is no object declares nothing
	o.Delete("tasks")
	for i, m := range o {
		if m.Name == "extensions" {
			extensions, _ := rawjson.Split(m.Value, rawjson.Lenient)
			extensions.Delete(metaPrefix + "tasks")
			extensions.Delete(metaPrefix + "ui")
			o[i] = rawjson.Member{Name: m.Name, Value: extensions.Bytes()}
		}
	}
	return o.Bytes()
}

// callParams returns the params of a tools/call on mcpSession l. All that the caller sent passes
// byte for byte, but for the name, the metadata, a request for a task, and members that
// differ from a known one in case only: a server that folds case would take them for it, and
// so run another tool than the one that was checked.
func (c *Client) callParams(s mcpSession, call Call) (json.RawMessage, passed, error) {
	o := rawjson.Object{{Name: "name", Value: rawjson.Quote(call.Name)}}
	var inParams json.RawMessage
	if call.Params != nil {
		params, err := splitForeign(call.Params)
		if err != nil {
			return nil, passed{}, &RPCError{Code: codeInvalidParams, Message: "params is not an object"}
		}
		for _, m := range params {
			switch {
			case m.Name == "_meta":
				inParams = m.Value
			case m.Name == "task":
			case strings.EqualFold(m.Name, "name"), foldsToKnown(m.Name):
			default:
				o.Add(m.Name, m.Value)
			}
		}
	}
	p, err := passOn(call, inParams)
	if err != nil {
		return nil, passed{}, &RPCError{Code: codeInvalidParams, Message: "_meta is not an object"}
	}
	if meta := c.meta(s, p); meta != nil {
		o.Add("_meta", meta)
	}
	return o.Bytes(), p, nil
}

// foldsToKnown tells a name that is a member of tools/call params but for its case.
func foldsToKnown(name string) bool {
	for _, known := range []string{"_meta", "arguments", "task", "inputResponses", "requestState"} {
		if name != known && strings.EqualFold(name, known) {
			return true
		}
	}
	return false
}

// listParams returns the params of a tools/list on mcpSession l. cursor is the JSON string that
// the server sent, as it came; nil for the first page.
func (c *Client) listParams(s mcpSession, cursor json.RawMessage) json.RawMessage {
	var o rawjson.Object
	if cursor != nil {
		o.Add("cursor", cursor)
	}
	if meta := c.meta(s, passed{}); meta != nil {
		o.Add("_meta", meta)
	}
	return o.Bytes()
}
