package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A protocol is a generation of MCP, and how its clients begin.
type protocol struct {
	name    string
	version string
	opening string // the client's first method
}

var protocols = []protocol{
	{"stateless", "2026-07-28", "server/discover"},
	{"handshake", "2025-11-25", "initialize"},
}

// inEachProtocol runs a test in both protocols.
func inEachProtocol(t *testing.T, f func(t *testing.T, e protocol)) {
	for _, e := range protocols {
		t.Run(e.name, func(t *testing.T) { f(t, e) })
	}
}

// An mcpClient is a caller that sends the same headers with every request.
type mcpClient struct {
	*program
	protocol protocol
	path     string      // after /mcp
	header   http.Header // in addition to the protocol's headers
}

// An answer is an HTTP answer that contains a JSON-RPC answer.
type answer struct {
	agenttest.Answer
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// open sends the first request of a client of the protocol.
func (c *mcpClient) open() answer {
	c.T.Helper()
	if c.protocol.opening == "initialize" {
		return c.send("initialize", map[string]any{
			"protocolVersion": c.protocol.version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
		})
	}
	return c.send(c.protocol.opening, map[string]any{})
}

// send posts one request with the id 7.
func (c *mcpClient) send(method string, params map[string]any) answer {
	c.T.Helper()
	header := http.Header{}
	maps.Copy(header, c.header)
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	if method != "initialize" {
		header.Set("MCP-Protocol-Version", c.protocol.version)
	}
	if c.protocol.opening == "server/discover" {
		params = maps.Clone(params)
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    c.protocol.version,
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
		header.Set("Mcp-Method", method)
		if name, ok := params["name"].(string); ok {
			header.Set("Mcp-Name", name)
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	require.OK(c.T, err)
	a := answer{Answer: c.Do(http.MethodPost, "/mcp"+c.path, string(body), header)}
	var id struct{ ID int }
	if json.Unmarshal([]byte(a.Body), &a) != nil || json.Unmarshal([]byte(a.Body), &id) != nil || id.ID != 7 {
		c.T.Fatalf("%d %s is no answer to request 7", a.Status, a.Body)
	}
	return a
}

// tool calls a tool. The answer's text is "" if it is an error.
func (c *mcpClient) tool(name string, args map[string]any) (a answer, text string, isError bool) {
	c.T.Helper()
	a = c.send("tools/call", map[string]any{"name": name, "arguments": args})
	if a.Error != nil {
		return a, "", true
	}
	r := agenttest.ReadResult(c.T, a.Result)
	return a, r.Text, r.IsError
}

// gets calls one of the gateway's own tools, which must not fail, and decodes its answer.
func (c *mcpClient) gets(name string, args map[string]any, out any) {
	c.T.Helper()
	a, text, isError := c.tool(name, args)
	if isError {
		c.T.Fatalf("%s answers %s", name, a.Body)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		c.T.Fatalf("%s: %v: %s", name, err, text)
	}
}

// listed returns the names of tools/list.
func (c *mcpClient) listed() []string {
	c.T.Helper()
	a := c.send("tools/list", map[string]any{})
	var r struct{ Tools []struct{ Name string } }
	if a.Error != nil || json.Unmarshal(a.Result, &r) != nil {
		c.T.Fatalf("tools/list: %s", a.Body)
	}
	names := []string{}
	for _, x := range r.Tools {
		names = append(names, x.Name)
	}
	return names
}
