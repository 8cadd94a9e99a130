// Package demo holds two small MCP servers with something to read, to write
// and to destroy, so that a new user sees every kind of answer of the gateway
// within a minute and without an account anywhere.
//
// They are real servers, made with the official SDK and kept in memory. One
// tool of theirs changes its definition on demand, as a server update would.
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

type note struct {
	ID    int    `json:"id" jsonschema:"number of the note"`
	Title string `json:"title" jsonschema:"title of the note"`
	Text  string `json:"text" jsonschema:"text of the note"`
}

type notes struct {
	mu   sync.Mutex
	last int
	all  []note
}

// Notes returns an MCP server that keeps notes in memory.
func Notes() http.Handler {
	n := &notes{last: 2, all: []note{
		{1, "Opening hours", "The gate opens at sunrise and shuts at sunset."},
		{2, "Shopping list", "Rope, oil for the hinges, two lanterns."},
	}}
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "search_notes", Description: "Find notes whose title or text contains a word. Returns their numbers and titles.",
		Annotations: reads()}, n.search)
	mcp.AddTool(s, &mcp.Tool{Name: "get_note", Description: "Read one note in full by its number.", Annotations: reads()}, n.get)
	mcp.AddTool(s, &mcp.Tool{Name: "create_note", Description: "Write a new note. Returns it with its number.", Annotations: writes()}, n.create)
	mcp.AddTool(s, &mcp.Tool{Name: "delete_note", Description: "Delete a note for ever. There is no way to get it back.", Annotations: destroys()}, n.remove)
	return handler(s)
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

func (n *notes) search(_ context.Context, _ *mcp.CallToolRequest, in wordInput) (*mcp.CallToolResult, noteList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := noteList{Notes: []note{}}
	word := strings.ToLower(in.Word)
	for _, x := range n.all {
		if strings.Contains(strings.ToLower(x.Title+" "+x.Text), word) {
			out.Notes = append(out.Notes, x)
		}
	}
	return nil, out, nil
}

func (n *notes) find(id int) (int, error) {
	i := slices.IndexFunc(n.all, func(x note) bool { return x.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("no note has the number %d", id)
	}
	return i, nil
}

func (n *notes) get(_ context.Context, _ *mcp.CallToolRequest, in noteInput) (*mcp.CallToolResult, note, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := n.find(in.ID)
	if err != nil {
		return nil, note{}, err
	}
	return nil, n.all[i], nil
}

func (n *notes) create(_ context.Context, _ *mcp.CallToolRequest, in newNote) (*mcp.CallToolResult, note, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	x := note{n.last, in.Title, in.Text}
	n.all = append(n.all, x)
	return nil, x, nil
}

func (n *notes) remove(_ context.Context, _ *mcp.CallToolRequest, in noteInput) (*mcp.CallToolResult, removed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := n.find(in.ID)
	if err != nil {
		return nil, removed{}, err
	}
	n.all = slices.Delete(n.all, i, i+1)
	return nil, removed{in.ID}, nil
}

func handler(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func reads() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
}

func writes() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
}

func destroys() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(false)}
}
