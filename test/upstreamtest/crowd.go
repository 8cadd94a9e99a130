package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Crowd is thousands of MCP servers behind one listener, each at its own path. It uses few
// resources, so that measurements show the cost of the gateway. The servers use the stateless
// protocol, list tools, and answer each call with [Echo]. For other behavior, use [Server].
type Crowd struct {
	URL string // base address; a server is at URL/NAME

	Asked atomic.Int64 // requests so far

	answers map[string][]byte // result of tools/list, by path
	http    *http.Server
}

// NewCrowd starts one server for each server of a catalog. The servers run until the test ends.
func NewCrowd(t TB, catalog map[string][]json.RawMessage) *Crowd {
	t.Helper()
	c := &Crowd{answers: make(map[string][]byte, len(catalog))}
	for name, tools := range catalog {
		b := []byte(`{"tools":[`)
		for i, raw := range tools {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, raw...)
		}
		c.answers["/"+name] = append(b, `],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`...)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start MCP servers: %v", err)
	}
	c.URL = "http://" + l.Addr().String()
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() { _ = c.http.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = c.http.Close() })
	return c
}

// Config returns a config of the servers. rest (", …") is the rest of the file.
func (c *Crowd) Config(rest string) string {
	var list []string
	for _, path := range slices.Sorted(maps.Keys(c.answers)) {
		list = append(list, fmt.Sprintf(`%q:{"url":%q}`, strings.TrimPrefix(path, "/"), c.URL+path))
	}
	return "{\"mcpServers\":{" + strings.Join(list, ",\n") + "}" + rest + "}\n"
}

// ServeHTTP implements [http.Handler].
func (c *Crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.Asked.Add(1)
	tools, known := c.answers[r.URL.Path]
	body, err := io.ReadAll(r.Body)
	if err != nil || !known || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	req := &Request{Body: body}
	req.read()
	if e := checkModern(r, req, rawjson.Text(req.meta.Get(mcp.MetaVersion))); e != nil {
		writeError(w, http.StatusBadRequest, req.ID, e)
		return
	}
	result := tools
	switch req.Method {
	case "tools/list":
	case "server/discover":
		result = fmt.Appendf(nil, `{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`, mcp.VersionModern)
	case "tools/call":
		result, err = Echo(context.WithoutCancel(r.Context()), Call{Name: req.Tool, Arguments: req.params.Get("arguments"), Modern: true})
	default:
		err = &RPCError{Code: -32601, Message: "method not found"}
	}
	if err != nil {
		writeError(w, http.StatusNotFound, req.ID, asRPCError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), req.ID, []byte(`,"result":`), result, []byte(`}`)))
}
