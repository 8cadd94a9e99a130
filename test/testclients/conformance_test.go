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
	for _, set := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(set, func(t *testing.T) { Conformance(t, p.URL+"/mcp", set) })
	}
}
