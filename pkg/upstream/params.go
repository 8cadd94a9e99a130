package upstream

import (
	"encoding/json"
	"strings"
)

// The keys of _meta that concern one leg only.
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaClientInfo   = metaPrefix + "clientInfo"
	metaCapabilities = metaPrefix + "clientCapabilities"
)

// An object is a JSON object under construction, as bytes.
type object []byte

// add adds a member; value is JSON already.
func (o *object) add(name string, value []byte) {
	lead := byte(',')
	if len(*o) == 0 {
		lead = '{'
	}
	*o = append(*o, lead)
	*o = append(*o, quote(name)...)
	*o = append(*o, ':')
	*o = append(*o, value...)
}

// end closes the object.
func (o *object) end() json.RawMessage {
	if len(*o) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(append(*o, '}'))
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// A passed is the metadata of the caller that goes on to the next leg.
type passed struct {
	members      []member
	capabilities json.RawMessage // nil: the caller declared none
	traceparent  string
	tracestate   string
}

type member struct {
	name  string
	value json.RawMessage
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
	err := members(raw, func(name string, value json.RawMessage) error {
		switch {
		case name == metaCapabilities:
			p.capabilities = value
		case strings.HasPrefix(name, metaPrefix), name == "progressToken":
		case name == "traceparent":
			p.traceparent = text(value)
		case name == "tracestate":
			p.tracestate = text(value)
		default:
			p.members = append(p.members, member{name, value})
		}
		return nil
	})
	p.checkTrace()
	return p, err
}

// text returns the string that raw is, or "".
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
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

// meta returns the _meta of a request on leg l, nil if there is nothing to say.
func (c *Client) meta(l leg, p passed) json.RawMessage {
	var o object
	if l.modern {
		o.add(metaVersion, quote(l.version))
		o.add(metaClientInfo, c.info)
		o.add(metaCapabilities, narrow(p.capabilities))
	}
	if p.traceparent != "" {
		o.add("traceparent", quote(p.traceparent))
	}
	if p.tracestate != "" {
		o.add("tracestate", quote(p.tracestate))
	}
	for _, m := range p.members {
		o.add(m.name, m.value)
	}
	if len(o) == 0 {
		return nil
	}
	return o.end()
}

// narrow returns the caller's capabilities without those that need more of a gateway than
// passing a result on: tasks, which are asked for again later, and user interfaces.
func narrow(capabilities json.RawMessage) json.RawMessage {
	without := func(raw json.RawMessage, drop func(string) bool, change func(string, json.RawMessage) json.RawMessage) json.RawMessage {
		var o object
		err := members(raw, func(name string, value json.RawMessage) error {
			if !drop(name) {
				o.add(name, change(name, value))
			}
			return nil
		})
		if err != nil {
			return json.RawMessage("{}")
		}
		return o.end()
	}
	same := func(_ string, v json.RawMessage) json.RawMessage { return v }
	extension := func(name string) bool { return name == metaPrefix+"tasks" || name == metaPrefix+"ui" }
	return without(capabilities, func(name string) bool { return name == "tasks" },
		func(name string, v json.RawMessage) json.RawMessage {
			if name == "extensions" {
				return without(v, extension, same)
			}
			return v
		})
}

// callParams returns the params of a tools/call on leg l. All that the caller sent passes
// byte for byte, but for the name, the metadata, a request for a task, and members that
// differ from a known one in case only: a server that folds case would take them for it, and
// so run another tool than the one that was checked.
func (c *Client) callParams(l leg, call Call) (json.RawMessage, passed, error) {
	var o object
	var inParams json.RawMessage
	o.add("name", quote(call.Name))
	if call.Params != nil {
		err := members(call.Params, func(name string, value json.RawMessage) error {
			switch {
			case name == "_meta":
				inParams = value
			case name == "task":
			case strings.EqualFold(name, "name"), foldsToKnown(name):
			default:
				o.add(name, value)
			}
			return nil
		})
		if err != nil {
			return nil, passed{}, &RPCError{Code: codeInvalidParams, Message: "params is not an object"}
		}
	}
	p, err := passOn(call, inParams)
	if err != nil {
		return nil, passed{}, &RPCError{Code: codeInvalidParams, Message: "_meta is not an object"}
	}
	if meta := c.meta(l, p); meta != nil {
		o.add("_meta", meta)
	}
	return o.end(), p, nil
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

// listParams returns the params of a tools/list on leg l. cursor is the JSON string that
// the server sent, as it came; nil for the first page.
func (c *Client) listParams(l leg, cursor json.RawMessage) json.RawMessage {
	var o object
	if cursor != nil {
		o.add("cursor", cursor)
	}
	if meta := c.meta(l, passed{}); meta != nil {
		o.add("_meta", meta)
	}
	return o.end()
}
