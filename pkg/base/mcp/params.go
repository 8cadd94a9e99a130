package mcp

import (
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// paramNames are the members of params that have a meaning for the gateway or a server.
var paramNames = []string{
	"name", "uri", "arguments", "_meta", "cursor", "inputResponses", "requestState", "ref",
	"argument", "context", "taskId",
}

// lists are the methods whose answers have pages.
var lists = []string{MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates}

func (r Request) readParams(params rawjson.Object) (Request, *Error) {
	for _, m := range params {
		if misspelt(m.Name, paramNames) {
			return r, refuse(CodeInvalidParams, "a name in params differs from a known name only in upper and lower case")
		}
		ok := true
		switch {
		case m.Name == "_meta":
			r.Meta, ok = m.Members, m.Value[0] == '{'
		case m.Name == "cursor" && slices.Contains(lists, r.Method):
			r.Cursor, ok = rawjson.Text(m.Value), m.Value[0] == '"' || string(m.Value) == "null"
		case !r.readParam(m, &ok):
			r.Rest.Add(m.Name, m.Value)
		}
		if !ok {
			return r, refuse(CodeInvalidParams, "params."+m.Name+" has the wrong type")
		}
	}
	return r, nil
}

// readParam reads a member that the request's method defines, and sets ok to whether the member has
// the right type. It reports whether it stored the member in a field of r. If it did not,
// readParams adds the member to r.Rest.
func (r *Request) readParam(m rawjson.Member, ok *bool) bool {
	null := string(m.Value) == "null"
	switch r.Method + " " + m.Name {
	case MethodCallTool + " name", MethodGetPrompt + " name":
		r.Name, *ok = rawjson.Text(m.Value), m.Value[0] == '"'
	case MethodReadResource + " uri":
		r.URI, *ok = rawjson.Text(m.Value), m.Value[0] == '"'
	case MethodGetTask + " taskId", MethodUpdateTask + " taskId", MethodCancelTask + " taskId":
		r.Task, *ok = rawjson.Text(m.Value), m.Value[0] == '"'
	case MethodCallTool + " arguments":
		r.Arguments, r.Fields = m.Value, m.Members
	case MethodGetPrompt + " arguments":
		if *ok = null || m.Value[0] == '{'; !null {
			r.Arguments, r.Fields = m.Value, m.Members
		}
	case MethodComplete + " ref":
		*ok = r.readRef(m)
	case MethodComplete + " argument":
		*ok = hasTexts(m, "name", "value")
		return false
	case MethodComplete + " context":
		*ok = null || m.Value[0] == '{'
		return false
	default:
		return false
	}
	return true
}

// readRef reads the ref of completion/complete, which names a prompt or a resource. It refuses a
// ref that the server's JSON parser could understand differently.
func (r *Request) readRef(m rawjson.Member) bool {
	o, err := rawjson.Split(m.Value, rawjson.Lenient) // Parse has checked it strictly
	if err != nil {
		return false
	}
	for _, member := range o {
		if misspelt(member.Name, []string{"type", "name", "uri"}) {
			return false
		}
	}
	r.Ref = m.Value
	switch rawjson.Text(o.Get("type")) {
	case "ref/prompt":
		r.Name = rawjson.Text(o.Get("name"))
		return r.Name != "" && field(m.Value, "uri") == nil
	case "ref/resource":
		r.URI = rawjson.Text(o.Get("uri"))
		return r.URI != "" && field(m.Value, "name") == nil
	}
	return false
}

// hasTexts reports whether a member is an object that has a string under each of the names.
func hasTexts(m rawjson.Member, names ...string) bool {
	o, err := rawjson.Split(m.Value, rawjson.Lenient)
	for _, name := range names {
		if v := o.Get(name); len(v) == 0 || v[0] != '"' {
			return false
		}
	}
	return err == nil
}

// misspelt reports whether a name differs from a known name in letter case only: encoding/json
// reads "Name" as "name", but other parsers do not.
func misspelt(name string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return name != k && strings.EqualFold(name, k) })
}
