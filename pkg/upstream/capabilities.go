package upstream

import (
	"encoding/json"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// What the gateway says to servers that its clients can be asked. Some servers list tools only to a
// client that can, so a sync declares what can be passed on to one that can; who then calls
// without being able to, is refused.
const (
	relayed  = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}`
	replayed = `{"elicitation":{"form":{}}}` // a URL is another one each time
)

// declared returns what is declared to a server of the stateless protocol where no caller's
// capabilities count: its questions are results, and pass on every way.
func (t Target) declared() string {
	if t.Asks == AsksOff {
		return "{}"
	}
	return relayed
}

// capabilities returns what is declared at the beginning of a session of the handshake protocol. In
// one that a single client has, that is what the client has declared itself.
func (o *operation) capabilities() json.RawMessage {
	var all json.RawMessage
	switch {
	case o.t.Asks == AsksOff:
		return json.RawMessage("{}")
	case o.c.o.Holds:
		all = json.RawMessage(relayed)
	case o.t.Asks == AsksReplay:
		all = json.RawMessage(replayed)
	default:
		return json.RawMessage("{}")
	}
	if o.key.Owner.Client == "" {
		return all
	}
	var own rawjson.Object
	for _, name := range mcp.Askables() {
		v, ours := rawjson.Get(o.client.Capabilities, name), rawjson.Get(all, name)
		if len(v) == 0 || v[0] != '{' || ours == nil {
			continue
		}
		if o.c.o.Holds && name != "roots" { // that they have changed is not passed on
			ours = v
		}
		own.Add(name, ours)
	}
	return own.Bytes()
}

// unasked returns a call whose caller can be asked nothing.
func unasked(call Call) Call {
	call.Client.Ask, call.Client.Capabilities = nil, nil
	capabilities, _ := rawjson.Split(call.Meta.Get(mcp.MetaClientCapabilities), rawjson.Lenient) // what is no object declares nothing
	for _, name := range mcp.Askables() {
		capabilities.Delete(name)
	}
	call.Meta = slices.Clone(call.Meta)
	call.Meta.Set(mcp.MetaClientCapabilities, capabilities.Bytes())
	return call
}
