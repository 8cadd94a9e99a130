package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Undeclared checks the requests for input in inputRequests, an object of a result. It returns an
// error if the client has not declared that it can answer them, and nil if the gateway may send
// them. The error names the missing capabilities.
func Undeclared(inputRequests, capabilities json.RawMessage) *Error {
	missing := map[string]map[string]struct{}{}
	lacks := func(capability, part string) {
		if missing[capability] == nil {
			missing[capability] = map[string]struct{}{}
		}
		if part != "" {
			missing[capability][part] = struct{}{}
		}
	}
	requests, _ := rawjson.Split(inputRequests, rawjson.Lenient) // nil: none
	for _, r := range requests {
		params := field(r.Value, "params")
		switch method := rawjson.Text(field(r.Value, "method")); method {
		case MethodElicit:
			declared := field(capabilities, "elicitation")
			form, url := field(declared, "form"), field(declared, "url")
			switch byURL := rawjson.Text(field(params, "mode")) == "url"; {
			case byURL && url == nil:
				lacks("elicitation", "url")
			case !byURL && (declared == nil || form == nil && url != nil):
				// an empty capability means forms
				lacks("elicitation", "")
			}
		case MethodSample:
			declared := field(capabilities, "sampling")
			withTools := field(params, "tools") != nil || field(params, "toolChoice") != nil
			switch {
			case withTools && field(declared, "tools") == nil:
				lacks("sampling", "tools")
			case declared == nil:
				lacks("sampling", "")
			}
		case MethodListRoots:
			if field(capabilities, "roots") == nil {
				lacks("roots", "")
			}
		default: // no client can have declared this method
			lacks(text.Clip(method, 200), "")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	data, _ := json.Marshal(map[string]any{"requiredCapabilities": missing}) // never fails
	return &Error{
		Code: CodeMissingCapability,
		Message: "The tool asks its client for input, and this client has not declared that it can give it: " +
			strings.Join(slices.Sorted(maps.Keys(missing)), ", ") + ". The call may have had side effects. Check before you call again.",
		Data: data,
	}
}

// UndeclaredQuestion works like [Undeclared], but for one question.
func UndeclaredQuestion(method string, params, capabilities json.RawMessage) *Error {
	return Undeclared(rawjson.Object{{Name: "question", Value: InputRequest(method, params)}}.Bytes(), capabilities)
}

// InputRequest returns one question as an entry of inputRequests. params is nil if there are none.
func InputRequest(method string, params json.RawMessage) json.RawMessage {
	o := rawjson.Object{{Name: "method", Value: rawjson.Quote(method)}}
	if len(params) > 0 {
		o.Add("params", params)
	}
	return o.Bytes()
}

// Askable reports whether a client has declared a capability to answer questions.
func Askable(capabilities json.RawMessage) bool {
	for _, name := range Askables() {
		if v := rawjson.Get(capabilities, name); len(v) > 0 && v[0] == '{' {
			return true
		}
	}
	return false
}

// field returns the last value of a name in an object, or nil if there is none or it is null.
func field(object json.RawMessage, name string) json.RawMessage {
	if v := rawjson.Get(object, name); string(v) != "null" {
		return v
	}
	return nil
}
