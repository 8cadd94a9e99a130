package mcphttp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Items are the other features of a [Session]: prompts, resources and completion of their
// arguments.
type Items interface {
	// Offers returns which of these features exist.
	Offers() gateway.Offers

	// ListItems returns one page, as the result object of the method: prompts/list, resources/list
	// or resources/templates/list. Cursor is "" for the first page.
	ListItems(ctx context.Context, method, cursor string) (json.RawMessage, error)

	// GetItem answers a checked prompts/get, resources/read or completion/complete with the result
	// object. Before that, c may get messages and questions.
	GetItem(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)
}

// listItems gets a list from the backend.
func (h *handler) listItems(ctx context.Context, q *request) (json.RawMessage, error) {
	raw, err := q.session.ListItems(ctx, q.msg.Method, q.msg.Cursor)
	if err != nil {
		return nil, err
	}
	if raw, err = h.decorator(q, true).decorate(raw); err != nil {
		return nil, err
	}
	if exceeded(raw, h.opts.MaxResponse, !h.opts.Stream) > 0 {
		return nil, internal(fmt.Errorf("%w: a page of %d bytes", errTooLong, len(raw)))
	}
	return raw, nil
}

// getItem gets a prompt, a resource or a completion from the backend.
func (h *handler) getItem(ctx context.Context, q *request) (json.RawMessage, error) {
	d := h.decorator(q, false)
	d.kept, d.plain, d.item = q.msg.Method == mcp.MethodReadResource, q.msg.Method == mcp.MethodComplete, tool.Prompt
	if q.msg.URI != "" {
		d.item = tool.Resource
	}
	raw, err := q.session.GetItem(ctx, q.msg, h.client(q))
	if failure := h.unansweredError(q, err); failure != nil {
		return nil, gateway.FailedItem("", d.item, failure)
	}
	if err != nil {
		return nil, err
	}
	if raw, err = d.decorate(raw); err != nil {
		return nil, err
	}
	if limit := exceeded(raw, h.opts.MaxResponse, !h.opts.Stream); limit > 0 {
		return nil, gateway.FailedItem("", d.item, tooLarge(limit))
	}
	return raw, nil
}

// unusable replaces an answer that the gateway cannot pass on. For a tool it returns a result with
// the text. For a prompt or a resource it returns an error, whose message is the first sentence of
// the text with the name of the kind.
func (d decorator) unusable(text string) (json.RawMessage, error) {
	if d.item == tool.Tool {
		return d.decorate(toolError(text))
	}
	what, _, _ := strings.Cut(text, ". ")
	return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: d.inWords(what) + "."}
}

// undeclared refuses a question that needs a feature which the client has not declared.
func (d decorator) undeclared(refused *mcp.Error) *mcp.Error {
	if d.item != tool.Tool {
		what, _, _ := strings.Cut(refused.Message, ". ")
		refused.Message = d.inWords(what) + "."
	}
	return refused
}

// inWords changes a sentence about a tool to a sentence about a prompt or a resource.
func (d decorator) inWords(sentence string) string {
	return strings.Replace(sentence, "The tool", "The "+d.item.String(), 1)
}
