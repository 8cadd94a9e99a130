package testclients

import (
	"fmt"
	"os"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// behindTheGate returns a config with the everything-server alone.
func behindTheGate(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(
		`{"mcpServers": {"everything": {"url": %q, "approval": "off"}}, "gateway": {"mode": "direct", "prefix": false}}`, Everything(t))
}

// The whole gateway stands in front of the everything-server.
func TestConformance(t *testing.T) {
	findNode(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, behindTheGate(t))
	p := programtest.Start(t, dir)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) { Conformance(t, p.URL+"/mcp", "serve", set) })
	}
}

// The same as Lambda functions, by the front that streams and by the one that does not.
func TestConformanceLambda(t *testing.T) {
	findNode(t)
	stack := lambdatest.NewStack(t, emulator.Start(t), lambdatest.Build(t, repo.Path(""), "mcp", "sync"), map[string]string{"PORTCULLIS_AUTH": "none"})
	stack.Configure(behindTheGate(t))
	stack.Sync(t)
	for front, streaming := range map[string]string{"streaming": "url", "buffered": "none"} {
		server := frontOf(t, stack, streaming)
		for _, set := range Requirements {
			t.Run(front+"/"+set, func(t *testing.T) { Conformance(t, server.URL+"/mcp", front, set) })
		}
	}
}

// frontOf returns an HTTP server before functions that know its address as their own: pages of that
// origin may call.
func frontOf(t *testing.T, stack *lambdatest.Stack, streaming string) (f *lambdatest.Front) {
	t.Helper()
	f = lambdatest.NewFront(t, func() *lambdatest.Function {
		return stack.Start(t, "mcp", "PORTCULLIS_STREAMING", streaming, "PORTCULLIS_BASE_URL", f.URL)
	})
	return f
}

// The gateway's client of upstream servers stands before the servers of the suite.
func TestClientConformance(t *testing.T) {
	findNode(t)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) { ClientConformance(t, set) })
	}
}
