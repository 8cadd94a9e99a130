package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/netip"

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func Example() {
	s, err := upstreamtest.Start(upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("greet", "Says hello.", `{"readOnlyHint":true}`, "name")}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	c := upstream.New(&upstream.Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer c.Close()
	target := upstream.Target{ID: "greeter", URL: s.URL}

	out := c.Load(context.Background(), target)
	fmt.Println(out.Status, out.Tools[0].Name)

	s.FailOn("tools/call", 1, upstreamtest.Status(503, "")) // retried: it was not processed
	result, err := c.Call(context.Background(), target, upstream.Call{Name: "greet", Arguments: json.RawMessage(`{"name":"Ada"}`)})
	fmt.Println(string(result), err)

	s.Fail(upstreamtest.Status(403, ""))
	fmt.Println(c.Load(context.Background(), target).Message("greeter"))
	// Output:
	// available greet
	// {"content":[{"type":"text","text":"greet"}],"structuredContent":{"name":"greet","arguments":{"name":"Ada"}},"isError":false,"resultType":"complete"} <nil>
	// Access to MCP server 'greeter' was denied. Retrying will not help; contact its owner.
}
