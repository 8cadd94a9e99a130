package testclients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An Endpoint is a server's URL, or the command by which a client starts the server as a child.
type Endpoint struct {
	URL     string
	Command []string
}

// A Client is a client of another project.
type Client struct {
	Name  string
	Pin   pin
	Lacks []feature
	Large bool // its packages are large, so that only the full lanes run it

	take func(t testing.TB, j job) Transcript
}

// A pin is the place of a client's version: a file, and the text before the version.
type pin struct{ file, before string }

func npm(name string) pin { return pin{"package.json", `"` + name + `": "`} }

func pypi(name string) pin { return pin{"requirements.txt", "\n" + name + "=="} }

// A feature is something that some clients cannot do.
type feature string

const (
	unlisted  feature = "calls of tools that are not listed"
	progress  feature = "progress"
	templates feature = "templates"
	questions feature = "questions and pages"
	changes   feature = "list changes"
)

func (c Client) lacks(f feature) bool { return slices.Contains(c.Lacks, f) }

// Clients contains all clients for users.
var Clients = []Client{
	{
		Name: "TypeScript 1", Pin: npm("@modelcontextprotocol/sdk"),
		take: inMode(SDK, typeScript),
	},
	{
		Name: "TypeScript 2", Pin: npm("@modelcontextprotocol/client"),
		take: inMode(Auto, typeScript),
	},
	{
		Name: "TypeScript 2, handshake", Pin: npm("@modelcontextprotocol/client"),
		take: inMode(Legacy, typeScript),
	},
	{Name: "Python mcp", Pin: pypi("mcp"), take: inMode("mcp", python)},
	{Name: "Python fastmcp", Pin: pypi("fastmcp"), take: inMode("fastmcp", python)},
	{
		Name: "go-sdk", Pin: pin{"../../go.mod", "modelcontextprotocol/go-sdk v"},
		take: goSDK,
	},
	{Name: "mcp-go", Pin: pin{"mcpgo/go.mod", "mark3labs/mcp-go v"}, take: mcpGo},
	{
		Name: "rmcp", Pin: pin{"rmcp/Cargo.toml", `rmcp = { version = "=`}, Large: true,
		take: rust,
	},
	{
		Name: "mcp-use", Pin: pin{"requirements-mcpuse.txt", "\nmcp-use=="}, Large: true,
		Lacks: []feature{progress, templates}, take: mcpUse,
	},
	{
		Name: "Inspector", Pin: npm("@modelcontextprotocol/inspector"),
		Lacks: []feature{unlisted, progress, questions, changes}, take: inspector,
	},
}

// Frameworks contains the clients of agent frameworks. A result is the text that the framework
// passes to its model.
var Frameworks = []Client{
	{Name: "AI SDK", Pin: npm("@ai-sdk/mcp"), take: inMode("ai-sdk", typeScript)},
	{
		Name: "Pydantic AI", Pin: pypi("pydantic-ai-slim"),
		take: inMode("pydantic-ai", python),
	},
}

// A Visit describes how a client connects.
type Visit struct {
	Token     string   // its credential; "": none
	Handshake bool     // use only the older protocols
	Opens     []string // the user's answers to pages: accept, decline or cancel; nil: it opens none
}

// Visit connects the client to a server and takes the steps.
func (c Client) Visit(t testing.TB, at Endpoint, v Visit, steps ...Step) Transcript {
	t.Helper()
	headers := map[string]string{}
	if v.Token != "" {
		headers["Authorization"] = "Bearer " + v.Token
	}
	return c.take(t, job{URL: at.URL, Command: at.Command, Headers: headers, Opens: v.Opens, Legacy: v.Handshake, Steps: steps})
}

// Take connects the client to a server and takes the steps. It answers questions with reply.
func (c Client) Take(t testing.TB, at Endpoint, reply string, steps ...Step) Transcript {
	t.Helper()
	return c.take(t, job{URL: at.URL, Command: at.Command, Reply: json.RawMessage(reply), Steps: steps})
}

func inMode(mode string, take func(t testing.TB, j job) Transcript) func(t testing.TB, j job) Transcript {
	return func(t testing.TB, j job) Transcript {
		t.Helper()
		j.Mode = mode
		return take(t, j)
	}
}

// findPython returns the Python of the environment that `make python` installs.
func findPython(t testing.TB) string {
	t.Helper()
	path := os.Getenv("PORTCULLIS_PYTHON")
	if path == "" {
		path = repo.Path(".tools/python/bin/python")
	}
	if _, err := exec.LookPath(path); err != nil {
		local.Missing(t, "the clients and servers in Python are not installed: make python")
	}
	return path
}

func python(t testing.TB, j job) Transcript {
	t.Helper()
	out, err := execute(t, findPython(t), "client.py", j.text(t))
	return transcript(t, j, out, err)
}

// mcpGo runs a program in a separate module.
func mcpGo(t testing.TB, j job) Transcript {
	t.Helper()
	out, err := execute(t, buildGo(t, "mcpgo", "."), j.text(t))
	return transcript(t, j, out, err)
}

// buildGo builds a program of the Go module in a folder below this one, and returns the program's
// path. If the dependencies of that module are unavailable, the program is missing.
func buildGo(t testing.TB, module, program string) string {
	t.Helper()
	bin := t.TempDir() + "/program"
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, program)
	cmd.Dir = filepath.Join(dir(), module)
	if out, err := cmd.CombinedOutput(); err != nil {
		local.Missing(t, fmt.Sprintf("%s of %s cannot be built: %v\n%s", program, module, err, out))
	}
	return bin
}

// headers is a transport that adds headers to every request.
type headers map[string]string

// RoundTrip implements [http.RoundTripper].
func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// goSDK runs the official Go client in this process.
func goSDK(t testing.TB, j job) (tr Transcript) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var progress []*sdk.ProgressNotificationParams
	changed := make(chan struct{}, 1) // holds a token if the list of tools has changed
	o := &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, r.Params)
		},
	}
	if j.Reply != nil || j.Opens != nil {
		o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if r.Params.Mode == "url" {
				open := Opened{j.Opens[min(len(tr.Opened), len(j.Opens)-1)], r.Params.Message, r.Params.URL}
				tr.Opened = append(tr.Opened, open)
				return &sdk.ElicitResult{Action: open.Action}, nil
			}
			tr.Asked = append(tr.Asked, r.Params.Message)
			return &sdk.ElicitResult{Action: "accept", Content: require.JSON[map[string]any](t, j.Reply)}, nil
		}
	}
	if j.Opens != nil {
		o.Capabilities = &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}}
	}
	var transport sdk.Transport = &sdk.StreamableClientTransport{Endpoint: j.URL, HTTPClient: &http.Client{Transport: headers(j.Headers)}}
	if len(j.Command) > 0 {
		transport = &sdk.CommandTransport{Command: exec.CommandContext(context.WithoutCancel(ctx), j.Command[0], j.Command[1:]...)}
	}
	era := &sdk.ClientSessionOptions{}
	if j.Legacy {
		era.ProtocolVersion = mcp.VersionLegacy
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "portcullis-clients", Version: "1.0.0"}, o).Connect(ctx, transport, era)
	require.OK(t, err)
	defer func() { _ = session.Close() }()
	began := session.InitializeResult()
	tr.Version, tr.Server.Name, tr.Instructions = began.ProtocolVersion, began.ServerInfo.Name, began.Instructions
	tr.Capabilities, err = json.Marshal(began.Capabilities)
	require.OK(t, err)
	for i, s := range j.Steps {
		if s.Method == listChanged {
			<-changed
			tr.Answers = append(tr.Answers, Answer{})
			continue
		}
		result, err := goStep(ctx, t, session, i, s)
		a := asAnswer(t, result, err)
		mu.Lock()
		for _, p := range progress {
			a.Progress = append(a.Progress, struct {
				Progress, Total float64
				Message         string
			}{p.Progress, p.Total, p.Message})
		}
		progress = nil
		mu.Unlock()
		tr.Answers = append(tr.Answers, a)
	}
	return tr
}

func goStep(ctx context.Context, t testing.TB, c *sdk.ClientSession, n int, s Step) (any, error) {
	t.Helper()
	params := s.Params
	if params == nil {
		params = json.RawMessage(`{}`)
	}
	switch s.Method {
	case "tools/list":
		return c.ListTools(ctx, nil)
	case "tools/call":
		p := require.JSON[sdk.CallToolParams](t, params)
		if s.Progress {
			p.SetProgressToken(n)
		}
		return c.CallTool(ctx, &p)
	case "prompts/list":
		return c.ListPrompts(ctx, nil)
	case "prompts/get":
		p := require.JSON[sdk.GetPromptParams](t, params)
		return c.GetPrompt(ctx, &p)
	case "resources/list":
		return c.ListResources(ctx, nil)
	case "resources/templates/list":
		return c.ListResourceTemplates(ctx, nil)
	case "resources/read":
		p := require.JSON[sdk.ReadResourceParams](t, params)
		return c.ReadResource(ctx, &p)
	}
	return nil, fmt.Errorf("no step %s", s.Method)
}

func asAnswer(t testing.TB, result any, failed error) (a Answer) {
	t.Helper()
	if failed != nil {
		a.Error = &Failure{Code: 0, Message: failed.Error(), Name: fmt.Sprintf("%T", failed)}
		if e, ok := errors.AsType[*jsonrpc.Error](failed); ok {
			a.Error.Code, a.Error.Name = e.Code, "*jsonrpc.Error" // the name of the alias, because the type's own name is internal
			a.Error.URL = firstURL(e.Data)
		}
		return a
	}
	var err error
	a.Result, err = json.Marshal(result)
	require.OK(t, err)
	return a
}

// firstURL returns the first page that an error -32042 requests to open.
func firstURL(data json.RawMessage) string {
	var d struct{ Elicitations []struct{ URL string } }
	if json.Unmarshal(data, &d) != nil || len(d.Elicitations) == 0 {
		return ""
	}
	return d.Elicitations[0].URL
}

// inspector runs the Inspector's command line once for each step.
func inspector(t testing.TB, j job) (tr Transcript) {
	t.Helper()
	for _, s := range j.Steps {
		args := []string{"--cli", j.URL, "--transport", "http"}
		if len(j.Command) > 0 {
			args = append([]string{"--cli"}, j.Command...)
			args = append(args, "--transport", "stdio")
		}
		era := "auto"
		if j.Legacy {
			era = "legacy"
		}
		for name, value := range j.Headers {
			args = append(args, "--header", name+": "+value)
		}
		args = append(args, "--protocol-era", era, "--quiet", "--method", s.Method)
		p := struct {
			Name, URI string
			Arguments json.RawMessage
		}{}
		if s.Params != nil {
			require.OK(t, json.Unmarshal(s.Params, &p))
		}
		switch s.Method {
		case "tools/call":
			args = append(args, "--tool-name", p.Name, "--tool-args-json", string(p.Arguments))
		case "prompts/get":
			args = append(args, "--prompt-name", p.Name)
			if values := require.JSON[map[string]string](t, p.Arguments); len(values) > 0 {
				args = append(args, "--prompt-args")
				for _, name := range slices.Sorted(maps.Keys(values)) {
					args = append(args, name+"="+values[name])
				}
			}
		case "resources/read":
			args = append(args, "--uri", p.URI)
		}
		out, err := run(t, inspectorLauncher, args...)
		if err != nil && !json.Valid(out) {
			tr.Answers = append(tr.Answers, asAnswer(t, nil, err))
			continue
		}
		tr.Answers = append(tr.Answers, Answer{Result: out})
	}
	return tr
}
