package mcphttp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// A tool's text for input that nobody can give.
const (
	asksOldClient = "The tool asks for input in a way that your client's protocol version does not have. " +
		"What it did before it asked is not known; check before calling it again."
	answersOddly = "The tool answered in a form that this gateway does not know, so its answer cannot be passed on. " +
		"The call was sent and may have taken effect; check before calling it again."
)

// undeclared refuses a result that asks its client for what the client has not declared that it
// can give; nil if it may ask. meta is that of the request.
func undeclared(inputRequests json.RawMessage, meta rawjson.Object) *mcp.Error {
	has := meta.Get(mcp.MetaClientCapabilities)
	missing := map[string]map[string]struct{}{}
	lacks := func(capability, part string) {
		if missing[capability] == nil {
			missing[capability] = map[string]struct{}{}
		}
		if part != "" {
			missing[capability][part] = struct{}{}
		}
	}
	requests, _ := rawjson.Split(inputRequests, rawjson.Lenient) // nil: it has none, or none that a client could read
	for _, r := range requests {
		params := field(r.Value, "params")
		switch method := rawjson.Text(field(r.Value, "method")); method {
		case "elicitation/create":
			declared := field(has, "elicitation")
			form, url := field(declared, "form"), field(declared, "url")
			switch byURL := rawjson.Text(field(params, "mode")) == "url"; {
			case byURL && url == nil:
				lacks("elicitation", "url")
			case !byURL && (declared == nil || form == nil && url != nil): // an empty declaration is of forms
				lacks("elicitation", "")
			}
		case "sampling/createMessage":
			declared := field(has, "sampling")
			withTools := field(params, "tools") != nil || field(params, "toolChoice") != nil
			switch {
			case withTools && field(declared, "tools") == nil:
				lacks("sampling", "tools")
			case declared == nil:
				lacks("sampling", "")
			}
		case "roots/list":
			if field(has, "roots") == nil {
				lacks("roots", "")
			}
		default: // no client can have declared it
			lacks(clip(method), "")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	data, _ := json.Marshal(map[string]any{"requiredCapabilities": missing}) // texts alone cannot fail
	return &mcp.Error{
		Code: mcp.CodeMissingCapability,
		Message: "The tool asks its client for input, and this client has not declared that it can give it: " +
			strings.Join(slices.Sorted(maps.Keys(missing)), ", ") + ". What the tool did before it asked is not known.",
		Data: data,
	}
}

// field returns the last value of a name in an object, nil if there is none or it is null.
func field(object json.RawMessage, name string) json.RawMessage {
	if v := rawjson.Get(object, name); string(v) != "null" {
		return v
	}
	return nil
}
