// Conformanceclient is the gateway's MCP client, pkg/upstream, as a program for the client
// scenarios of the conformance suite. The suite starts a server, names the scenario in
// MCP_CONFORMANCE_SCENARIO and passes the server's URL as the last argument.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: MCP_CONFORMANCE_SCENARIO=… conformanceclient URL")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Getenv, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "conformanceclient:", err)
		os.Exit(1)
	}
}

// scenarios contains the actions after the client loaded the server's list. The suite checks only
// the requests that reach its server, so an error that the server returns is not a failure.
var scenarios = map[string]func(*agent) error{
	"initialize":                          nothing,
	"request-metadata":                    nothing,
	"json-schema-ref-no-deref":            nothing,
	"tools_call":                          func(a *agent) error { return a.call("add_numbers", `{"a":5,"b":3}`) },
	"sse-retry":                           func(a *agent) error { return a.call("test_reconnection", `{}`) },
	"elicitation-sep1034-client-defaults": func(a *agent) error { return a.call("test_client_elicitation_defaults", `{}`) },
	"json-schema-2020-12-preservation":    echoSchema,
	"http-custom-headers":                 callsOfContext,
	"http-standard-headers":               everyMethod,
	"http-invalid-tool-headers":           callAll,
	"sep-2322-client-request-state":       callAll,
}

func run(ctx context.Context, getenv func(string) string, url string) error {
	name := getenv("MCP_CONFORMANCE_SCENARIO")
	scenario, ok := scenarios[name]
	signsIn := strings.HasPrefix(name, "auth/")
	switch {
	case slices.Contains(extensions, name):
		fmt.Fprintln(os.Stderr, "the gateway does not have this extension")
		return nil
	case !ok && !signsIn:
		return fmt.Errorf("no scenario %q: there are auth/… and %q", name, slices.Sorted(maps.Keys(scenarios)))
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	signIns := newSignIns()
	client := upstream.New(&upstream.Options{
		Connections: signIns,
		AllowNets:   []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	})
	defer client.Close()
	defer client.EndSessions(ctx)
	a := &agent{
		ctx: ctx, client: client, signIns: signIns, context: getenv("MCP_CONFORMANCE_CONTEXT"),
		target: upstream.Target{ID: "suite", URL: url, Timeout: 5 * time.Second},
	}
	if signsIn {
		return a.signedIn(name)
	}
	if out := a.load(); out.Status != outcome.Available {
		return fmt.Errorf("the list was not loaded: %s %s: %s", out.Status, out.Reason, out.Error)
	}
	return scenario(a)
}

// load loads the server's list, and keeps its tools.
func (a *agent) load() outcome.Outcome {
	out := a.client.Load(a.ctx, a.target)
	a.tools = out.Tools
	return out
}

// An agent calls the client as the gateway's callers do.
type agent struct {
	ctx     context.Context
	client  *upstream.Client
	signIns *connection.Service
	target  upstream.Target
	tools   []tool.Definition
	context string           // of the scenario: a JSON object
	denied  *outcome.Outcome // of the last call; nil: it was not denied
}

func nothing(*agent) error { return nil }

func (a *agent) find(name string) (tool.Definition, error) {
	i := slices.IndexFunc(a.tools, func(d tool.Definition) bool { return d.Name == name })
	if i < 0 {
		return tool.Definition{}, fmt.Errorf("the server does not list %s", name)
	}
	return a.tools[i], nil
}

// maxRounds is how often a server may request input during one call.
const maxRounds = 4

// call calls a tool. If the server requests input, call answers and retries.
func (a *agent) call(name, arguments string) error {
	d, err := a.find(name)
	if err != nil {
		return err
	}
	c := upstream.Call{
		Name: name, Arguments: json.RawMessage(arguments), Schema: d.InputSchema,
		Meta: rawjson.Object{{Name: mcp.MetaClientCapabilities, Value: json.RawMessage(`{"elicitation":{}}`)}},
	}
	for range maxRounds {
		result, err := a.client.Call(a.ctx, a.target, c)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			if failed, ok := errors.AsType[*outcome.CallError](err); ok && failed.Outcome.Status == outcome.Denied {
				a.denied = &failed.Outcome
			}
			return nil
		}
		if rawjson.Text(rawjson.Get(result, "resultType")) != mcp.ResultInputRequired {
			return nil
		}
		c.Rest = replies(result)
	}
	return fmt.Errorf("%s requested input more than %d times", name, maxRounds)
}

// replies returns the params of the retry: a confirmation for each question, and the server's
// state.
func replies(result json.RawMessage) rawjson.Object {
	questions, _ := rawjson.Split(rawjson.Get(result, "inputRequests"), rawjson.Lenient)
	var answers, rest rawjson.Object
	for _, q := range questions {
		answers.Add(q.Name, []byte(`{"action":"accept","content":{"confirmed":true}}`))
	}
	rest.Add("inputResponses", answers.Bytes())
	if state := rawjson.Get(result, "requestState"); state != nil {
		rest.Add("requestState", state)
	}
	return rest
}

// callAll calls every tool that the client accepted.
func callAll(a *agent) error {
	for _, d := range a.tools {
		if err := a.call(d.Name, `{"region":"us-west1"}`); err != nil {
			return err
		}
	}
	return nil
}

// everyMethod reads a resource, gets a prompt and calls all tools. These requests repeat the item's
// name or URI in the header Mcp-Name.
func everyMethod(a *agent) error {
	for _, c := range []upstream.Call{
		{Method: mcp.MethodReadResource, Name: "file:///path/to/file%20name.txt"},
		{Method: mcp.MethodGetPrompt, Name: "test_prompt"},
	} {
		if _, err := a.client.Call(a.ctx, a.target, c); err != nil {
			return fmt.Errorf("%s: %w", c.Method, err)
		}
	}
	return callAll(a)
}

// callsOfContext makes the calls that the scenario's context lists.
func callsOfContext(a *agent) error {
	var c struct {
		Calls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(a.context), &c); err != nil {
		return err
	}
	for _, call := range c.Calls {
		if err := a.call(call.Name, string(call.Arguments)); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends a tool's schema, as the gateway stores it, back to the server.
func echoSchema(a *agent) error {
	d, err := a.find("json_schema_2020_12_tool")
	if err != nil {
		return err
	}
	return a.call("json_schema_echo", `{"schema":`+string(d.InputSchema)+`}`)
}
