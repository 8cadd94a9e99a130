// Mcpgo runs the client of mark3labs/mcp-go against a gateway and prints its answers as one JSON
// object, as client.mjs does. It is a separate module, so that the gateway's module does not
// require that client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

type job struct {
	URL     string
	Command []string
	Reply   map[string]any
	Opens   []string
	Legacy  bool `json:"handshake"`
	Headers map[string]string
	Steps   []struct {
		Method   string
		Params   json.RawMessage
		Progress bool
	}
}

type answer struct {
	Result   any              `json:"result,omitempty"`
	Error    *failure         `json:"error,omitempty"`
	Progress []map[string]any `json:"progress,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"`
}

// An opened is a page that the gateway asks the user to open, and the user's answer.
type opened struct {
	Action  string `json:"action"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// A watch records the messages of the server other than its answers.
type watch struct {
	reply    map[string]any
	opens    []string
	mu       sync.Mutex
	asked    []string
	opened   []opened
	logs     []any
	progress []map[string]any
	changed  chan struct{} // holds a token if the list of tools has changed
}

// Elicit implements [client.ElicitationHandler].
func (w *watch) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Params.Mode == "url" {
		action := w.opens[min(len(w.opened), len(w.opens)-1)]
		w.opened = append(w.opened, opened{action, r.Params.Message, r.Params.URL})
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseAction(action)}}, nil
	}
	w.asked = append(w.asked, r.Params.Message)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: w.reply}}, nil
}

func (w *watch) notified(n mcp.JSONRPCNotification) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n.Method {
	case "notifications/progress":
		w.progress = append(w.progress, n.Params.AdditionalFields)
	case "notifications/tools/list_changed":
		select {
		case w.changed <- struct{}{}:
		default:
		}
	case "notifications/message":
		w.logs = append(w.logs, n.Params.AdditionalFields["data"])
	}
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	w := &watch{reply: j.Reply, opens: j.Opens, changed: make(chan struct{}, 1)}
	var tr transport.Interface
	if len(j.Command) > 0 {
		tr = transport.NewStdio(j.Command[0], nil, j.Command[1:]...)
	} else {
		http, err := transport.NewStreamableHTTP(j.URL, transport.WithHTTPHeaders(j.Headers))
		if err != nil {
			return err
		}
		tr = http
	}
	var options []client.ClientOption
	if j.Opens != nil {
		options = append(options, client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}))
	}
	if j.Legacy {
		options = append(options, client.WithLegacyProtocolOnly())
	}
	if j.Reply != nil || j.Opens != nil {
		options = append(options, client.WithElicitationHandler(w))
	}
	c := client.NewClient(tr, options...)
	defer func() { _ = c.Close() }()
	c.OnNotification(w.notified)
	if err := c.Start(ctx); err != nil {
		return err
	}
	began, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "mcpgo", Version: "1.0.0"}}})
	if err != nil {
		return err
	}
	if !j.Legacy {
		failed := func(err error) { fmt.Fprintln(os.Stderr, "mcpgo: listen:", err) }
		stop, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, failed)
		if err != nil {
			return err
		}
		defer stop()
	}
	answers := make([]answer, 0, len(j.Steps))
	for i, s := range j.Steps {
		result, err := w.take(ctx, c, i, s.Method, s.Params, s.Progress)
		a := answer{Result: result}
		if err != nil {
			f := failure{Message: err.Error(), Name: fmt.Sprintf("%T", err)}
			if e, ok := errors.AsType[mcp.URLElicitationRequiredError](err); ok {
				f.Code, f.Name = mcp.URL_ELICITATION_REQUIRED, fmt.Sprintf("%T", e)
				f.URL = e.Elicitations[0].URL
				f.Message += "\n" + e.Elicitations[0].Message // the error itself has no text of the server
			}
			a = answer{Error: &f}
		}
		w.mu.Lock()
		a.Progress, w.progress = w.progress, nil
		w.mu.Unlock()
		answers = append(answers, a)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": began.ProtocolVersion, "server": began.ServerInfo, "capabilities": began.Capabilities,
		"instructions": began.Instructions, "answers": answers, "asked": w.asked, "opened": w.opened, "logs": w.logs,
	})
}

func (w *watch) take(
	ctx context.Context, c *client.Client, n int,
	method string, params json.RawMessage, progress bool,
) (any, error) {
	switch method {
	case "tools/list":
		return c.ListTools(ctx, mcp.ListToolsRequest{})
	case "tools/call":
		var r mcp.CallToolRequest
		if err := read(params, &r.Params); err != nil {
			return nil, err
		}
		if progress {
			r.Params.Meta = &mcp.Meta{ProgressToken: n}
		}
		return c.CallTool(ctx, r)
	case "prompts/list":
		return c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	case "prompts/get":
		var r mcp.GetPromptRequest
		if err := read(params, &r.Params); err != nil {
			return nil, err
		}
		return c.GetPrompt(ctx, r)
	case "resources/list":
		return c.ListResources(ctx, mcp.ListResourcesRequest{})
	case "resources/templates/list":
		return c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	case "resources/read":
		var r mcp.ReadResourceRequest
		if err := read(params, &r.Params); err != nil {
			return nil, err
		}
		return c.ReadResource(ctx, r)
	case "notifications/tools/list_changed": // wait for it
		<-w.changed
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("no step %s", method)
}

func read(params json.RawMessage, into any) error {
	if len(params) == 0 {
		return nil
	}
	return json.Unmarshal(params, into)
}
