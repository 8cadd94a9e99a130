// Package agenteval lets a language model do tasks with the tools of a gateway, and measures the
// results. The model can be at any endpoint that implements OpenAI's chat completions API.
package agenteval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/portcullis-mcp/portcullis/internal/cli/agenteval"
)

// A Model is a language model at an endpoint.
type Model struct {
	URL  string // without /chat/completions
	Name string
	Key  string // sent as a bearer token; "": none
}

// FromEnv returns the model that PORTCULLIS_EVAL_URL, PORTCULLIS_EVAL_MODEL and
// PORTCULLIS_EVAL_KEY name. ok is false if PORTCULLIS_EVAL_URL is not set.
func FromEnv() (m Model, ok bool) {
	m = Model{os.Getenv("PORTCULLIS_EVAL_URL"), os.Getenv("PORTCULLIS_EVAL_MODEL"), os.Getenv("PORTCULLIS_EVAL_KEY")}
	return m, m.URL != ""
}

// A Gateway lists the tools that the model can call, and calls them.
type Gateway interface {
	Tools() []Tool
	// Call calls a tool of the list. status is the status of a locked tool, "" if it is not locked.
	Call(name string, arguments json.RawMessage) (text, status string, isError bool)
	// Schema returns the input schema of a server's tool, or nil if no tool has the name.
	Schema(name string) json.RawMessage
}

// A Tool is a tool that the model can call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// An Outcome is the result of one task.
type Outcome struct {
	Task       string
	Solved     bool     // each tool that the task needs was called, and did not fail
	Rounds     int      // replies of the model
	Tokens     int      // of prompts and replies, as the endpoint counts them
	First      int      // first calls of servers' tools
	FirstValid int      // first calls whose arguments match the tool's schema
	Reactions  []string // "pending_approval: request_access": what the model did after each refusal
	Answer     string   // text of the model's last reply
}

// maxRounds is how many replies a model has for one task.
const maxRounds = 20

// A message is one message of a conversation.
type message struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	Call    string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Do lets the model do a task. It returns when a reply calls no tool, or after maxRounds replies.
func (m Model) Do(ctx context.Context, task agenteval.Task, g Gateway) (Outcome, error) {
	o := Outcome{Task: task.Task}
	missing, called := slices.Clone(task.Tools), map[string]bool{}
	refused, last := "", "" // status and text of the last refused call
	talk := []message{{Role: "user", Content: task.Task}}
	for o.Rounds < maxRounds {
		reply, tokens, err := m.reply(ctx, talk, g.Tools())
		if err != nil {
			return o, err
		}
		o.Rounds++
		o.Tokens += tokens
		talk = append(talk, reply)
		if refused != "" {
			o.Reactions = append(o.Reactions, refused+": "+reaction(reply, last))
			refused = ""
		}
		if o.Answer = reply.Content; len(reply.Calls) == 0 {
			break
		}
		for _, c := range reply.Calls {
			name, arguments := c.Function.Name, json.RawMessage(c.Function.Arguments)
			target := targetOf(name, arguments)
			if target.Name != "" && !called[target.Name] {
				called[target.Name] = true
				o.First++
				if fits(g.Schema(target.Name), target.Args) {
					o.FirstValid++
				}
			}
			text, status, isError := g.Call(name, arguments)
			if refused = status; status != "" {
				last = name + string(arguments)
			}
			if target.Name != "" && !isError {
				missing = slices.DeleteFunc(missing, func(s string) bool { return s == target.Name })
			}
			talk = append(talk, message{Role: "tool", Call: c.ID, Content: text})
		}
	}
	o.Solved = len(missing) == 0
	return o, nil
}

// A target is the server's tool that a call names, and the arguments.
type target struct {
	Name string
	Args map[string]any
}

func targetOf(name string, arguments json.RawMessage) (t target) {
	if strings.HasPrefix(name, "call_tool_") {
		if json.Unmarshal(arguments, &t) != nil {
			return target{}
		}
		if t.Args == nil {
			t.Args = map[string]any{}
		}
	}
	return t
}

// fits reports whether the arguments are valid under the schema.
func fits(schema json.RawMessage, args map[string]any) bool {
	var s jsonschema.Schema
	if schema == nil || json.Unmarshal(schema, &s) != nil {
		return false
	}
	resolved, err := s.Resolve(nil)
	return err == nil && resolved.Validate(args) == nil
}

// reaction describes what a reply does after the gateway refused the last call.
func reaction(reply message, last string) string {
	if len(reply.Calls) == 0 {
		return "answers"
	}
	f := reply.Calls[0].Function
	if f.Name+f.Arguments == last {
		return "repeats the call"
	}
	return f.Name
}

// reply requests the next message from the endpoint, and returns how many tokens the request took.
func (m Model) reply(ctx context.Context, talk []message, tools []Tool) (message, int, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	request := struct {
		Model       string    `json:"model"`
		Messages    []message `json:"messages"`
		Tools       []tool    `json:"tools"`
		Temperature float64   `json:"temperature"`
	}{Model: m.Name, Messages: talk}
	for _, t := range tools {
		request.Tools = append(request.Tools, tool{"function", function{t.Name, t.Description, t.InputSchema}})
	}
	body, err := json.Marshal(request)
	if err != nil {
		return message{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(m.URL, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return message{}, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if m.Key != "" {
		r.Header.Set("Authorization", "Bearer "+m.Key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return message{}, 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return message{}, 0, err
	}
	var answer struct {
		Choices []struct{ Message message }
		Usage   struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil || res.StatusCode != http.StatusOK || len(answer.Choices) == 0 {
		return message{}, 0, fmt.Errorf("the model's endpoint answered %s: %.300s", res.Status, data)
	}
	return answer.Choices[0].Message, answer.Usage.Total, nil
}
