package upstream

import (
	"encoding/json"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// The capabilities that the gateway declares to servers. Some servers list tools only to a client
// that declares a capability, so a sync declares every capability that the gateway can pass on. If
// a call needs a capability that its caller lacks, the call or the server's question is refused.
const (
	allQuestions = `"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}`
	withTasks    = `"extensions":{"` + mcp.ExtensionTasks + `":{}}`
)

var (
	relayed  = declaration(`{`+allQuestions+`}`, false)
	replayed = declaration(`{"elicitation":{"form":{}}}`, false) // no URL mode: the URL differs each time
	unasking = declaration(`{}`, false)

	statelessRelayed  = declaration(`{`+allQuestions+`,`+withTasks+`}`, true)
	statelessUnasking = declaration(`{`+withTasks+`}`, true)
)

// declaration returns capabilities as the gateway declares them. It always declares MCP Apps, even
// if the caller does not, so that a server lists the same tools for all clients. It leaves out the
// tasks of version 2025-11-25, and the extension for tasks unless the request accepts a task. A
// value that is not an object declares nothing.
func declaration(capabilities string, acceptsTask bool) string {
	o, _ := rawjson.Split([]byte(capabilities), rawjson.Lenient)
	o.Delete("tasks")
	extensions, _ := rawjson.Split(o.Get("extensions"), rawjson.Lenient)
	if !acceptsTask {
		extensions.Delete(mcp.ExtensionTasks)
	}
	extensions.Set(mcp.ExtensionApps, []byte(`{"mimeTypes":["text/html;profile=mcp-app"]}`))
	o.Set("extensions", extensions.Bytes())
	return string(o.Bytes())
}

// declared returns the capabilities that a request to a server of the stateless protocol declares
// if it does not declare a caller's own. Such a server asks questions in its results, and the
// gateway can pass these on in every protocol, as well as tasks.
func (t Target) declared() string {
	if t.Asks == AsksOff {
		return statelessUnasking
	}
	return statelessRelayed
}

// capabilities returns the capabilities that begin a session of the handshake protocol. A session
// for a single client declares what that client declared.
func (o *operation) capabilities() json.RawMessage {
	all := json.RawMessage(unasking)
	switch {
	case o.t.Asks == AsksOff:
	case o.c.o.Holds:
		all = json.RawMessage(relayed)
	case o.t.Asks == AsksReplay:
		all = json.RawMessage(replayed)
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
		if o.c.o.Holds && name != "roots" { // the gateway does not pass on changes of roots
			ours = v
		}
		own.Add(name, ours)
	}
	return json.RawMessage(declaration(string(own.Bytes()), false))
}

// unasked returns a call whose caller cannot answer questions.
func unasked(call Call) Call {
	call.Client.Ask, call.Client.Capabilities = nil, nil
	capabilities, _ := rawjson.Split(
		call.Meta.Get(mcp.MetaClientCapabilities),
		rawjson.Lenient,
	) // a non-object declares nothing
	for _, name := range mcp.Askables() {
		capabilities.Delete(name)
	}
	call.Meta = slices.Clone(call.Meta)
	call.Meta.Set(mcp.MetaClientCapabilities, capabilities.Bytes())
	return call
}
