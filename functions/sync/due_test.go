package main

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// The schedule skips a server that a sync asked just now; every other trigger asks the server.
func TestScheduleLeavesServersAlone(t *testing.T) {
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("read", "Reads.", "")}})
	objects := new(objecttest.Mem)
	_, err := objects.Put(t.Context(), config.Key, []byte(`{"mcpServers":{"fs":{"url":"`+server.URL+`"}}}`), "")
	require.OK(t, err)
	p := boot.New(boot.Settings{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		boot.Stores{Objects: objects, Approvals: new(approvaltest.Mem)}, boot.Options{})
	before := 0
	for _, c := range []struct {
		event string
		asks  bool
	}{
		{`{"source":"aws.scheduler"}`, true}, // the first time
		{`{"source":"aws.scheduler"}`, false},
		{`{"source":"portcullis.admin"}`, true},
		{`{"source":"aws.scheduler"}`, false},
	} {
		_, err := handler{program: p}.Invoke(t.Context(), []byte(c.event))
		require.OK(t, err)
		if n := len(server.Requests()); (n > before) != c.asks {
			t.Errorf("%s: the server had %d requests, %d of them earlier; want a new request: %t",
				c.event, n, before, c.asks)
		}
		before = len(server.Requests())
	}
}
