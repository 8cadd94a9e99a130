package testclients

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestMain(m *testing.M) {
	os.Exit(programtest.Main(func() int { return browsertest.Main(m) }))
}

// behindTheGate returns a config with only the everything-server, in the protocol of a requirement
// set. In the stateless protocol, its tools of 2025-11-25 cannot send the requests that this set
// expects.
func behindTheGate(t *testing.T, requirements string) string {
	t.Helper()
	if requirements == mcp.VersionLegacy {
		return configOf(Everything(t, "-stateless=false"), `, "protocol": "2025-11-25"`)
	}
	return configOf(changing(t, Everything(t, "-stateless=true")), "")
}

// configOf returns a config with one server, whose entry also has the members in entry.
func configOf(url, entry string) string {
	return fmt.Sprintf(`{"mcpServers": {"everything": {"url": %q, "approval": "off"%s}}, "gateway": {"mode": "direct", "prefix": false, "requests": true}}`,
		url, entry)
}

// changing returns the address of a proxy for the everything-server, whose list of tools really
// changes with each call of test_trigger_tool_change. The server itself adds the same tool each
// time: it sends a notification, but its list changes only once. The gateway notifies its clients
// only if their list has changed.
func changing(t *testing.T, server string) string {
	t.Helper()
	const added = "__transient_tool_for_list_changed"
	to, err := url.Parse(server)
	require.OK(t, err)
	var calls atomic.Int64
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,                         // at once: an answer may be a stream
		ErrorLog:      log.New(io.Discard, "", 0), // a client that leaves a stream is no error
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Header.Get(mcp.HeaderMethod) != mcp.MethodListTools {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			name := added + strconv.FormatInt(calls.Load(), 10)
			body = bytes.ReplaceAll(body, []byte(added), []byte(name))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			return err
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderName) == "test_trigger_tool_change" {
			calls.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	return s.URL
}

// The program and the Lambda functions pass the suite's scenarios of the tasks extension. The
// functions have a buffered front, and each of their processes knows nothing of the others.
func TestTaskConformance(t *testing.T) {
	findNode(t)
	config := configOf(upstreamtest.New(t, new(upstreamtest.Tasks).Options()).URL, "")
	t.Run("serve", func(t *testing.T) {
		dir := t.TempDir()
		programtest.WriteConfig(t, dir, config)
		TaskConformance(t, programtest.Start(t, dir).URL+"/mcp")
	})
	t.Run("functions", func(t *testing.T) {
		programs := lambdatest.Build(t, repo.Path(""), "mcp", "sync")
		stack := lambdatest.NewStack(t, emulator.Start(t), programs, sealed)
		stack.Configure(config)
		stack.Sync(t)
		TaskConformance(t, frontOf(t, stack, "none").URL+"/mcp")
	})
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

// sealed are settings of functions without authentication and with a key.
var sealed = map[string]string{
	"PORTCULLIS_AUTH": "none", "PORTCULLIS_SEAL_KEY": strings.Repeat("0f", 32),
}

// The Lambda functions pass the suite's server scenarios, with a streaming and with a buffered
// front. Outside the lanes, each front has one of the requirement sets.
func TestConformanceLambda(t *testing.T) {
	findNode(t)
	endpoint, programs := emulator.Start(t), lambdatest.Build(t, repo.Path(""), "mcp", "sync")
	for _, set := range Requirements {
		stack := lambdatest.NewStack(t, endpoint, programs, sealed)
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
