package testclients

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// behindTheGate returns a config with only the everything-server, in the protocol of a requirement
// set. In the stateless protocol, its tools of 2025-11-25 cannot send the requests that this set
// expects.
func behindTheGate(t *testing.T, requirements string) string {
	t.Helper()
	entry, stateless := "", "-stateless=true"
	if requirements == mcp.VersionLegacy {
		entry, stateless = `, "protocol": "2025-11-25"`, "-stateless=false"
	}
	return fmt.Sprintf(`{"mcpServers": {"everything": {"url": %q, "approval": "off"%s}}, "gateway": {"mode": "direct", "prefix": false, "requests": true}}`,
		Everything(t, stateless), entry)
}

// The program passes the suite's server scenarios with the everything-server.
func TestConformance(t *testing.T) {
	findNode(t)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) {
			dir := t.TempDir()
			programtest.WriteConfig(t, dir, behindTheGate(t, set))
			Conformance(t, programtest.Start(t, dir).URL+"/mcp", "serve", set)
		})
	}
}

// The Lambda functions pass the suite's server scenarios, with a streaming and with a buffered
// front. Outside the lanes, each front has one of the requirement sets.
func TestConformanceLambda(t *testing.T) {
	findNode(t)
	endpoint, programs := emulator.Start(t), lambdatest.Build(t, repo.Path(""), "mcp", "sync")
	for _, set := range Requirements {
		stack := lambdatest.NewStack(t, endpoint, programs, map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_SEAL_KEY": strings.Repeat("0f", 32)})
		stack.Configure(behindTheGate(t, set))
		stack.Sync(t)
		for front, streaming := range map[string]string{"streaming": "url", "buffered": "none"} {
			if lanes == "" && (front == "streaming") != (set == mcp.VersionModern) {
				continue
			}
			t.Run(front+"/"+set, func(t *testing.T) { Conformance(t, frontOf(t, stack, streaming).URL+"/mcp", front, set) })
		}
	}
}

// frontOf returns an HTTP server in front of functions. Its address is the base URL of the
// functions, so they accept calls from pages of this origin.
func frontOf(t *testing.T, stack *lambdatest.Stack, streaming string) (f *lambdatest.Front) {
	t.Helper()
	f = lambdatest.NewFront(t, func() *lambdatest.Function {
		return stack.Start(t, "mcp", "PORTCULLIS_STREAMING", streaming, "PORTCULLIS_BASE_URL", f.URL)
	})
	return f
}

// The gateway's client of upstream servers calls the servers of the suite.
func TestClientConformance(t *testing.T) {
	findNode(t)
	for _, set := range Requirements {
		t.Run(set, func(t *testing.T) { ClientConformance(t, set) })
	}
}

// The gateway's client signs in to servers of 2025-03-26.
func TestSignInFallback(t *testing.T) {
	findNode(t)
	SignInFallback(t)
}
