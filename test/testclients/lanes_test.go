package testclients

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// lanes selects the amount of tests. "" runs a part, as CI does in each run, "small" runs all tests
// with short calls, and "full" runs all tests. `make lanes` sets it.
var lanes = os.Getenv("PORTCULLIS_LANES")

// An action is a step of a client at a gateway with the server "lanes" in direct mode, and the
// expected answer.
type action struct {
	name     string
	step     Step
	holds    []string // texts that the result contains
	lacks    string   // a text that the result does not contain; "": none
	fails    string   // a text of the error, or of the error result; "": it succeeds
	progress int      // number of progress events
	bytes    int      // smallest size of the result
	needs    feature  // clients without this feature do not take the step; "": all take it
}

func call(name, args string) Step {
	return Step{
		Method: "tools/call",
		Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)),
	}
}

func get(name, args string) Step {
	return Step{
		Method: "prompts/get",
		Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)),
	}
}

func readURI(uri string) Step {
	return Step{Method: "resources/read", Params: json.RawMessage(fmt.Sprintf(`{"uri":%q}`, uri))}
}

func told(s Step) Step { s.Progress = true; return s }

var actions = []action{
	{name: "tools", step: Step{Method: "tools/list"},
		holds: []string{`"lanes__count"`, `"lanes__sign"`}, lacks: `"lanes__die"`},
	{name: "call", step: call("lanes__count", `{"steps":3,"every":0}`),
		holds: []string{"counted to 3"}},
	{name: "call with progress", step: told(call("lanes__count", `{"steps":3,"every":0.1}`)),
		holds: []string{"counted to 3"}, progress: 3},
	{name: "locked call", step: call("lanes__die", `{}`), fails: "disabled_by_config",
		needs: unlisted},
	{name: "prompts", step: Step{Method: "prompts/list"}, holds: []string{`"lanes__summarize"`},
		lacks: "shout"},
	{name: "prompt", step: get("lanes__summarize", `{"topic":"Go"}`),
		holds: []string{"Summarize Go in one sentence."}},
	{name: "locked prompt", step: get("lanes__shout", `{"topic":"Go"}`),
		fails: "disabled_by_config"},
	{name: "resources", step: Step{Method: "resources/list"}, holds: []string{`"notes://today"`},
		lacks: "notes://secret"},
	{name: "templates", needs: templates, step: Step{Method: "resources/templates/list"},
		holds: []string{`"notes://day/{day}"`}},
	{name: "resource", step: readURI("notes://today"), holds: []string{"Water the plants."}},
	{name: "resource of a template", step: readURI("notes://day/monday"),
		holds: []string{"On monday: nothing."}},
	{name: "locked resource", step: readURI("notes://secret"), fails: "disabled_by_config"},
	{name: "unknown resource", step: readURI("elsewhere://x"), fails: "elsewhere://x"},
	{name: "question", step: call("lanes__sign", `{}`), holds: []string{"accept: Ada"},
		needs: questions},
	{name: "page", step: call("lanes__visit", `{}`), holds: []string{"the user answered: accept"},
		needs: questions},
	{name: "large result", step: call("lanes__picture", `{"size":3140000}`),
		holds: []string{"image/png"}, bytes: 4186668},
	{name: "too large a result", step: call("lanes__picture", `{"size":4194304}`),
		fails: "too large to pass on (over 4 MiB)"},
	{name: "change of the list", step: Step{Method: listChanged}, needs: changes},
	{name: "changed list", step: Step{Method: "tools/list"}, needs: changes},
}

// Each client can do all actions at the gateway.
func TestClients(t *testing.T) {
	findNode(t)
	server := HTTP(t)["lanes"]
	// in the stateless protocol this server sends no questions
	server.Entry["protocol"] = "2025-11-25"
	folder := t.TempDir()
	programtest.WriteConfig(
		t,
		folder,
		Config(
			t,
			map[string]Server{"lanes": server, "changing": changingServer(t)},
			`{"mode": "direct"}`,
		),
	)
	p := programtest.Start(t, folder)
	p.UntilLoaded()
	stop := changeLists(p)
	defer stop()
	t.Run("of", func(t *testing.T) { eachClient(t, p) })
}

// eachClient runs each client in parallel, with HTTP and with stdio.
func eachClient(t *testing.T, p *programtest.Program) {
	t.Helper()
	clients := Clients
	if lanes == "" {
		clients = Clients[:1]
	}
	for _, c := range clients {
		t.Run(c.Name+", HTTP", func(t *testing.T) {
			t.Parallel()
			c.does(t, Endpoint{URL: p.URL + "/mcp"}, actions)
		})
		t.Run(c.Name+", stdio", func(t *testing.T) {
			t.Parallel()
			c.does(
				t,
				Endpoint{Command: []string{programtest.Build(t), "stdio", "--url", p.URL + "/mcp"}},
				actions,
			)
		})
	}
}

// Clients of both protocols can answer the question of a server of the stateless protocol.
func TestQuestionOfStatelessServer(t *testing.T) {
	folder := t.TempDir()
	programtest.WriteConfig(
		t,
		folder,
		fmt.Sprintf(
			`{"mcpServers": {"s": {"url": %q, "approval": "off"}}, "gateway": {"mode": "direct"}}`,
			Everything(t),
		),
	)
	p := programtest.Start(t, folder)
	p.UntilLoaded()
	for _, c := range Clients[:3] {
		t.Run(c.Name, func(t *testing.T) {
			told := c.Take(
				t,
				Endpoint{URL: p.URL + "/mcp"},
				`{"name":"Ada"}`,
				call("s__test_input_required_result_elicitation", `{}`),
			)
			if a := told.Answers[0]; a.Error != nil || !strings.Contains(string(a.Result), "Ada") ||
				len(told.Asked) != 1 {
				t.Errorf("asked %q, and then %+v %s", told.Asked, a.Error, a.Result)
			}
		})
	}
}

func (c Client) does(t *testing.T, at Endpoint, actions []action) {
	t.Helper()
	c.skipLarge(t)
	actions = slices.DeleteFunc(
		slices.Clone(actions),
		func(d action) bool { return c.lacks(d.needs) },
	)
	var steps []Step
	for _, d := range actions {
		steps = append(steps, d.step)
	}
	j := job{URL: at.URL, Command: at.Command, Steps: steps}
	if !c.lacks(questions) {
		j.Reply, j.Opens = json.RawMessage(`{"value":"Ada"}`), []string{"accept"}
	}
	told := c.take(t, j)
	for i, d := range actions {
		c.check(t, d, told.Answers[i])
	}
	if !c.lacks(changes) {
		wantChanged(t, told.Answers[0], told.Answers[len(actions)-1])
	}
	if c.lacks(questions) {
		return
	}
	page := []Opened{
		{"accept", "Connect your account", "https://accounts.example.com/connect?id=7"},
	}
	if !slices.Equal(told.Opened, page) || len(told.Asked) != 1 {
		t.Errorf("the client opens %+v, want %+v; it is asked %q", told.Opened, page, told.Asked)
	}
}

// skipLarge skips the test if only the full lanes run the client.
func (c Client) skipLarge(t *testing.T) {
	t.Helper()
	if c.Large && lanes != "full" {
		t.Skip("the client is large: make lanes without SMALL runs it")
	}
}

// check checks the answer of an action.
func (c Client) check(t *testing.T, d action, a Answer) {
	t.Helper()
	result := string(a.Result)
	failed := strings.Contains(strings.ReplaceAll(result, " ", ""), `"isError":true`)
	if a.Error != nil {
		result, failed = a.Error.Message, true
	}
	for _, text := range append(d.holds, d.fails) {
		if !strings.Contains(result, text) {
			t.Errorf("%s: %.2000s lacks %q", d.name, result, text)
		}
	}
	if len(result) < d.bytes {
		t.Errorf("%s: a result of %d bytes, want %d at least", d.name, len(result), d.bytes)
	}
	if d.lacks != "" && strings.Contains(result, d.lacks) {
		t.Errorf("%s: %.2000s contains %q", d.name, result, d.lacks)
	}
	if failed != (d.fails != "") {
		t.Errorf("%s: failed is %t: %.2000s", d.name, failed, result)
	}
	if !c.lacks(progress) && !isProgress(a, d.progress) {
		t.Errorf(
			"%s: progress %v, want %d events, or some of them and the last",
			d.name,
			a.Progress,
			d.progress,
		)
	}
}

// isProgress reports whether a client got progress for the given number of steps. If the steps come
// faster than the client reads, the gateway sends only the newest.
func isProgress(a Answer, steps int) bool {
	if steps == 0 || len(a.Progress) == 0 {
		return len(a.Progress) == steps
	}
	for i, p := range a.Progress {
		if p.Total != float64(steps) || i > 0 && p.Progress <= a.Progress[i-1].Progress {
			return false
		}
	}
	return a.Progress[len(a.Progress)-1].Progress == float64(steps)
}

// The servers of other projects work behind the gateway as they do without it.
func TestServers(t *testing.T) {
	t.Run("HTTP", func(t *testing.T) { tryServers(t, few(HTTP(t), "everything")) })
	t.Run("stdio", func(t *testing.T) {
		servers := few(Stdio(t), "files")
		if lanes == "full" {
			servers["github"] = GitHub(t)
		}
		tryServers(t, servers, "--allow-commands")
		sameDefinitions(t, servers)
	})
}

// few returns only one of the servers, unless the lanes run all tests.
func few(servers map[string]Server, name string) map[string]Server {
	if lanes != "" {
		return servers
	}
	return map[string]Server{name: servers[name]}
}

// tryServers tries all servers behind one gateway: their calls, and one locked tool of each.
func tryServers(t *testing.T, servers map[string]Server, args ...string) {
	t.Helper()
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, Config(t, servers, `{}`))
	p := programtest.Start(t, folder, args...)
	p.UntilLoaded()
	for name, s := range known(p) {
		if n := s.Tools.Callable + s.Tools.DisabledByConfig; s.Outcome.Status != string(
			outcome.Available,
		) ||
			n < servers[name].Tools {
			t.Errorf(
				"%s is %s %s with %d tools, want at least %d",
				name,
				s.Outcome.Status,
				s.Outcome.Reason,
				n,
				servers[name].Tools,
			)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		tryOn(t, p, name, servers[name])
	}
}

// tryOn makes all tries of one server.
func tryOn(t *testing.T, p *programtest.Program, name string, s Server) {
	t.Helper()
	wants := func(what, answer, holds string) {
		t.Helper()
		if !strings.Contains(answer, holds) {
			t.Errorf("%s of %s answers %s, want %q", what, name, answer, holds)
		}
	}
	w := newWire(t, p.URL+"/mcp/x/"+name, "", true, "")
	ask := func(method, key, value, args string) string {
		params := map[string]any{key: value}
		if args != "" {
			params["arguments"] = json.RawMessage(args)
		}
		end, _ := last(w.ask(t.Context(), method, params))
		return end.text()
	}
	for _, try := range s.Calls {
		wants(try.Name, callAny(t, p, name+":"+try.Name, try.Args), try.Holds)
	}
	for _, try := range s.Prompts {
		wants(try.Name, ask("prompts/get", "name", name+"__"+try.Name, try.Args), try.Holds)
	}
	for _, try := range s.Resources {
		wants(try.Name, ask("resources/read", "uri", try.Name, ""), try.Holds)
	}
	const locked = "disabled_by_config"
	if s.Lock != "" {
		wants(s.Lock, callAny(t, p, name+":"+s.Lock, `{}`), locked)
	}
	if s.LockPrompt != "" {
		wants(s.LockPrompt, ask("prompts/get", "name", name+"__"+s.LockPrompt, `{}`), locked)
	}
	if s.LockResource != "" {
		wants(s.LockResource, ask("resources/read", "uri", s.LockResource, ""), locked)
	}
}

// callAny calls a tool through the call tool of its tier, and returns the unchanged result.
func callAny(t *testing.T, p *programtest.Program, name, args string) string {
	t.Helper()
	var result string
	for _, with := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
		raw := p.RPC(
			"tools/call",
			fmt.Sprintf(`{"name":%q,"arguments":{"name":%q,"args":%s}}`, with, name, args),
		)
		result = string(raw)
		if !strings.Contains(result, "Nothing was called") {
			break
		}
	}
	_ = require.JSON[map[string]any](t, result)
	return result
}
