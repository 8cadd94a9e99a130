package agenteval

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/agenteval"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// An mcpGateway is a [Gateway] over MCP, with a person who approves requests.
type mcpGateway struct {
	*programtest.Program
	approves bool
}

func (g mcpGateway) Tools() []Tool {
	return require.JSON[struct{ Tools []Tool }](g.T, g.RPC("tools/list", "{}")).Tools
}

func (g mcpGateway) Call(name string, arguments json.RawMessage) (text, status string, isError bool) {
	r := g.Program.Call(name, string(arguments))
	if lock, ok := r.Meta["dev.portcullis/lock"]; ok {
		status = require.JSON[struct{ Status string }](g.T, lock).Status
	}
	if name == "request_access" && g.approves {
		g.approve()
	}
	return r.Text, status, r.IsError
}

// approve approves every open request.
func (g mcpGateway) approve() {
	var page struct {
		Requests []struct{ ID, Hash, Args string }
	}
	g.Ask(http.StatusOK, "/admin/requests?state=open", nil, &page)
	for _, r := range page.Requests {
		g.Ask(http.StatusOK, "/admin/requests/"+r.ID+"/decide", fmt.Sprintf(`{"verdict":"approved","hash":%q,"args":%q}`, r.Hash, r.Args), nil)
	}
}

func (g mcpGateway) Schema(name string) json.RawMessage {
	server, tool, _ := strings.Cut(name, ":")
	var x struct {
		Definition struct{ InputSchema json.RawMessage }
	}
	g.Ask(http.StatusOK, "/admin/tools/"+server+"/"+tool, nil, &x)
	return x.Definition.InputSchema
}

// scripted returns a model whose endpoint sends these replies. A reply is a call
// ("tool {arguments}") or a text.
func scripted(t *testing.T, replies ...string) Model {
	t.Helper()
	next := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model    string
			Messages []message
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Model != "scripted" || r.Header.Get("Authorization") != "Bearer key" ||
			len(asked.Tools) < 6 || next == len(replies) {
			http.Error(w, "unexpected request", http.StatusBadRequest)
			return
		}
		if last := asked.Messages[len(asked.Messages)-1]; last.Role == "tool" {
			t.Logf("the gateway says: %.200s", last.Content)
		}
		reply := message{Role: "assistant", Content: replies[next]}
		if name, arguments, isCall := strings.Cut(reply.Content, " {"); isCall {
			call := toolCall{ID: fmt.Sprint(next), Type: "function"}
			call.Function.Name, call.Function.Arguments = name, "{"+arguments
			reply = message{Role: "assistant", Calls: []toolCall{call}}
		}
		next++
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": reply}}, "usage": map[string]int{"total_tokens": 100}})
	}))
	t.Cleanup(srv.Close)
	return Model{URL: srv.URL, Name: "scripted", Key: "key"}
}

// A model finds a locked tool, requests access, and does its task after a person has approved the
// tool. The test uses a scripted model, then the model in the environment.
func TestModel(t *testing.T) {
	task := agenteval.Task{Task: "Assign ticket 1 to kim. If you need access, ask for it.", Tools: []string{"tickets:assign_ticket"}}
	assign := `call_tool_write {"name":"tickets:assign_ticket","args":{"id":1,"assignee":"kim"}}`
	for _, tt := range []struct {
		name     string
		approves bool
		replies  []string
		want     Outcome
	}{
		{"approved", true, []string{
			`retrieve_tools {"query":"assign a ticket","include_disabled":true}`, assign,
			`request_access {"names":["tickets:assign_ticket"],"note":"kim knows printers"}`, assign, "Done.",
		}, Outcome{Solved: true, Rounds: 5, Tokens: 500, First: 1, FirstValid: 1, Reactions: []string{"pending_approval: request_access"}, Answer: "Done."}},
		{"repeated", false, []string{
			`call_tool_write {"name":"tickets:assign_ticket","args":{"id":"one"}}`, `call_tool_write {"name":"tickets:assign_ticket","args":{"id":"one"}}`, "It is locked.",
		}, Outcome{Rounds: 3, Tokens: 300, First: 1, Reactions: []string{"pending_approval: repeats the call", "pending_approval: answers"}, Answer: "It is locked."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := mcpGateway{programtest.Start(t, t.TempDir(), "--demo"), tt.approves}
			tt.want.Task = task.Task
			got, err := scripted(t, tt.replies...).Do(t.Context(), task, g)
			require.OK(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Do (-want +got):\n%s", diff)
			}
		})
	}
	m, ok := FromEnv()
	if !ok {
		t.Log("PORTCULLIS_EVAL_URL names no model: only the scripted model was run")
		return
	}
	got, err := m.Do(t.Context(), task, mcpGateway{programtest.Start(t, t.TempDir(), "--demo"), true})
	require.OK(t, err)
	t.Logf("%s: %+v", m.Name, got)
}

func TestModelFails(t *testing.T) {
	_, err := scripted(t).Do(t.Context(), agenteval.Task{Task: "x", Tools: []string{"s:t"}}, mcpGateway{programtest.Start(t, t.TempDir(), "--demo"), false})
	if err == nil || !strings.Contains(err.Error(), "400 Bad Request: unexpected request") {
		t.Errorf("Do = %v", err)
	}
}
