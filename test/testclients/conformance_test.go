package testclients

import (
	"fmt"
	"os"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// The whole gateway stands in front of the everything-server.
func TestConformance(t *testing.T) {
	findNode(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(
		`{"mcpServers": {"everything": {"url": %q, "approval": "off"}}, "gateway": {"mode": "direct", "prefix": false}}`, Everything(t)))
	p := programtest.Start(t, dir)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) { Conformance(t, p.URL+"/mcp", "serve", set) })
	}
}

// The gateway's client of upstream servers stands before the servers of the suite.
func TestClientConformance(t *testing.T) {
	findNode(t)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) { ClientConformance(t, set) })
	}
}
