// Package demo contains two small MCP servers with tools that read, write and destroy data. With
// them, a new user sees every kind of answer of the gateway within a minute, without any account.
//
// The servers use the official SDK and keep their data in memory. One of their tools changes its
// definition on demand, as if the server was updated.
package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server is an MCP server whose tools run one at a time.
type server struct {
	*mcp.Server
	mu sync.Mutex
}

func newServer(name string) *server {
	return &server{Server: mcp.NewServer(&mcp.Implementation{Name: name, Version: "1.0.0"}, nil)}
}

func (s *server) handler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// add adds a tool, or replaces one with the same name.
func add[In, Out any](s *server, name, description string, hints mcp.ToolAnnotations, run func(In) (Out, error)) {
	mcp.AddTool(s.Server, &mcp.Tool{Name: name, Description: description, Annotations: &hints},
		func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			out, err := run(in)
			return nil, out, err
		})
}

func reads() mcp.ToolAnnotations {
	return mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
}

func writes() mcp.ToolAnnotations {
	return mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
}

func destroys() mcp.ToolAnnotations {
	return mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(false)}
}

type note struct {
	ID    int    `json:"id" jsonschema:"number of the note"`
	Title string `json:"title" jsonschema:"title of the note"`
	Text  string `json:"text" jsonschema:"text of the note"`
}

type notes struct {
	last int
	all  []note
}

// newNotes returns an MCP server that keeps notes in memory.
func newNotes() http.Handler {
	n := &notes{last: 2, all: []note{
		{1, "Opening hours", "The gate opens at sunrise and shuts at sunset."},
		{2, "Shopping list", "Rope, oil for the hinges, two lanterns."},
	}}
	s := newServer("notes")
	add(s, "search_notes", "Find notes whose title or text contains a word. Returns their numbers and titles.", reads(), n.search)
	add(s, "get_note", "Read one note in full by its number.", reads(), n.get)
	add(s, "create_note", "Write a new note. Returns it with its number.", writes(), n.create)
	add(s, "delete_note", "Delete a note for ever. There is no way to get it back.", destroys(), n.remove)
	return s.handler()
}

type wordInput struct {
	Word string `json:"word" jsonschema:"word to look for; empty lists every note"`
}
type noteInput struct {
	ID int `json:"id" jsonschema:"number of the note"`
}
type newNote struct {
	Title string `json:"title" jsonschema:"title of the new note"`
	Text  string `json:"text" jsonschema:"text of the new note"`
}
type noteList struct {
	Notes []note `json:"notes"`
}
type removed struct {
	Deleted int `json:"deleted"`
}

func (n *notes) search(in wordInput) (noteList, error) {
	out := noteList{Notes: []note{}}
	word := strings.ToLower(in.Word)
	for _, x := range n.all {
		if strings.Contains(strings.ToLower(x.Title+" "+x.Text), word) {
			out.Notes = append(out.Notes, x)
		}
	}
	return out, nil
}

func (n *notes) find(id int) (int, error) {
	i := slices.IndexFunc(n.all, func(x note) bool { return x.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("no note has the number %d", id)
	}
	return i, nil
}

func (n *notes) get(in noteInput) (note, error) {
	i, err := n.find(in.ID)
	if err != nil {
		return note{}, err
	}
	return n.all[i], nil
}

func (n *notes) create(in newNote) (note, error) {
	n.last++
	x := note{n.last, in.Title, in.Text}
	n.all = append(n.all, x)
	return x, nil
}

func (n *notes) remove(in noteInput) (removed, error) {
	i, err := n.find(in.ID)
	if err != nil {
		return removed{}, err
	}
	n.all = slices.Delete(n.all, i, i+1)
	return removed{in.ID}, nil
}
