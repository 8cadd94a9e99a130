package upstream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const aTrace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

func TestCallParams(t *testing.T) {
	const own = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"0.0.0"},"io.modelcontextprotocol/clientCapabilities":`
	const apps = `"extensions":{"io.modelcontextprotocol/ui":` + // in every declaration
		`{"mimeTypes":["text/html;profile=mcp-app"]}}`
	const bare = own + `{` + apps + `}`
	modern, legacy := mcpSession{modern: true, version: mcp.VersionModern}, mcpSession{version: mcp.VersionLegacy}
	for _, tt := range []struct {
		name    string
		session mcpSession
		call    Call
		want    string
	}{
		{"only the name", legacy, Call{Name: "t"}, `{"name":"t"}`},
		{"metadata of the session", modern, Call{Name: "t"}, `{"name":"t","_meta":{` + bare + `}}`},
		{"arguments byte for byte", legacy,
			Call{Name: "t", Arguments: json.RawMessage(`{"n":9007199254740993, "z":1.0,"a":"\u00e9\/","a":2}`)},
			`{"name":"t","arguments":{"n":9007199254740993, "z":1.0,"a":"\u00e9\/","a":2}}`},
		{"answers to questions byte for byte", modern,
			Call{Name: "t", Rest: split(`{"inputResponses":{"q" : {"action":"accept"}},"requestState":"eyJ\u002b","new":[1e2]}`)},
			`{"name":"t","inputResponses":{"q" : {"action":"accept"}},"requestState":"eyJ\u002b",` +
				`"new":[1e2],"_meta":{` + bare + `}}`},
		{"the member task is dropped", modern,
			Call{
				Name: "t", Arguments: json.RawMessage(`{}`), Rest: split(`{"task":{"ttl":1},"Task":{}}`),
			},
			`{"name":"t","arguments":{},"_meta":{` + bare + `}}`},
		{"metadata of the caller's connection is dropped", modern,
			Call{Name: "t", Meta: split(`{"io.modelcontextprotocol/protocolVersion":"1","io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/logLevel":"debug","progressToken":7,"com.example/k":{"b":1,"a":[ ]}}`)},
			`{"name":"t","_meta":{` + bare + `,"com.example/k":{"b":1,"a":[ ]}}}`},
		{"capabilities without tasks", modern,
			Call{Name: "t", Meta: split(`{"io.modelcontextprotocol/clientCapabilities":` +
				`{"elicitation":{"form":{ }},"tasks":{},"extensions":` +
				`{"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/tasks":{},"com.example/x":{"a":1.0}}}}`)},
			`{"name":"t","_meta":{` + own + `{"elicitation":{"form":{ }},` +
				strings.Replace(apps, `{"io`, `{"com.example/x":{"a":1.0},"io`, 1) + `}}}`},
		{"a caller that accepts tasks", modern,
			Call{Name: "t", Meta: split(declaring), Tasks: true},
			`{"name":"t","_meta":{` + own + `{` +
				strings.Replace(apps, `{"io`, `{"io.modelcontextprotocol/tasks":{},"io`, 1) + `}}}`},
		{"a caller that did not declare tasks", modern, Call{Name: "t", Tasks: true},
			`{"name":"t","_meta":{` + bare + `}}`},
		{"a task", modern,
			Call{Method: mcp.MethodUpdateTask, Name: "id", Rest: split(`{"inputResponses":{ }}`)},
			`{"taskId":"id","inputResponses":{ },"_meta":{` + bare + `}}`},
		{"invalid capabilities", modern, Call{Name: "t", Meta: split(`{"io.modelcontextprotocol/clientCapabilities":"all"}`)},
			`{"name":"t","_meta":{` + bare + `}}`},
		{"trace of the HTTP request", legacy, Call{Name: "t", Traceparent: aTrace},
			`{"name":"t","_meta":{"traceparent":"` + aTrace + `"}}`},
		{"the trace of the metadata takes precedence", legacy,
			Call{Name: "t", Traceparent: strings.Replace(aTrace, "0a", "0b", 1), Meta: split(`{"traceparent":"` + aTrace + `","tracestate":"a=b","baggage":"k=v"}`)},
			`{"name":"t","_meta":{"traceparent":"` + aTrace + `","tracestate":"a=b","baggage":"k=v"}}`},
		{"answers to a stateless server", modern,
			Call{Name: "t", Rest: split(`{"inputResponses":{}}`)},
			`{"name":"t","inputResponses":{},"_meta":{` + bare + `}}`},
		{"answers to a handshake server are dropped", legacy, Call{Name: "t", Rest: split(`{"inputResponses":{},"x":1}`)}, `{"name":"t","x":1}`},
		{"an invalid trace", legacy, Call{Name: "t", Traceparent: "00-zz", Meta: split(`{"tracestate":"a=b"}`)}, `{"name":"t"}`},
		{"a trace with a line break", legacy, Call{Name: "t", Traceparent: aTrace + "\r\nX: y"}, `{"name":"t"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := New(nil).callParams(tt.session, tt.call, forwardMeta(tt.call)).Bytes()
			if string(got) != tt.want {
				t.Errorf("params = %s\nwant     %s", got, tt.want)
			}
			if !json.Valid(got) {
				t.Error("params is not JSON")
			}
		})
	}
}

// split returns the members of an object.
func split(object string) rawjson.Object {
	o, err := rawjson.Split([]byte(object), rawjson.Strict)
	if err != nil {
		panic(err)
	}
	return o
}

// The gateway sends a trace only to the servers that the operator has named. It sends its own trace
// if it records spans, and otherwise the trace of the caller.
func TestTraceHeaders(t *testing.T) {
	tracer := observe.NewTracer(observe.TracerOptions{URL: "http://127.0.0.1:1", Service: "test"})
	for _, tt := range []struct {
		name          string
		traces, spans bool
		want          string // in the header; "": no header
		state         string
	}{
		{"not named", false, false, "", ""},
		{"not named, with spans", false, true, "", ""},
		{"named", true, false, aTrace[3:35], "a=b"},
		{"named, with spans", true, true, "the gateway's own", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Trace: func(string) bool { return tt.traces }}, upstreamtest.Options{Protocols: upstreamtest.Modern})
			ctx := t.Context()
			if tt.spans {
				s := tracer.Start(ctx, observe.Request)
				defer s.End()
				if ctx = s.Context; tt.traces {
					tt.want = observe.TraceID(ctx)
				}
			}
			_, err := f.Call(ctx, f.targets[0], Call{Name: "tool_aa", Traceparent: aTrace, Meta: split(`{"traceparent":"` + aTrace + `","tracestate":"a=b"}`)})
			require.OK(t, err)
			sent := f.servers[0].Calls()[0]
			h := sent.Header
			if got := mcp.TraceID(h.Get("Traceparent")); got != tt.want || h.Get("Tracestate") != tt.state {
				t.Errorf("headers = %v, want the trace %q", h, tt.want)
			}
		})
	}
}

func TestCallKeepsBytes(t *testing.T) {
	for _, result := range []string{
		`{"content":[{"type":"hologram","depth":9007199254740993,"x":1.0}],"zeta":1, "alpha":[1e2],"isError":false}`,
		`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"b":1,"a":2}}},"requestState":"a\u002bb"}`,
		`{"content":[],"structuredContent":{"k":1,"k":2},"lone":"\ud83d"}`,
		`{}`,
	} {
		for _, o := range []upstreamtest.Options{{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Modern, SSE: true}, {Protocols: upstreamtest.Legacy}} {
			if got := failingOn(t, "tools/call", upstreamtest.Result(result), o).works(); got != result {
				t.Errorf("Call = %s; want the bytes %s", got, result)
			}
		}
	}
}

// The tests of tool.HeaderParams cover the other types of parameters.
func TestParameterHeaders(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"wrong":{"type":"string","x-mcp-header":"Wrong"}}}`)
	f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Modern})
	_, err := f.call(Call{Name: "wetter für Köln", Schema: schema, Arguments: json.RawMessage(`{"region":"Köln","n":42.0,"wrong":[1]}`)})
	require.OK(t, err)
	h := f.servers[0].Calls()[0].Header
	for name, want := range map[string]string{"Region": "=?base64?S8O2bG4=?=", "N": "42", "Wrong": ""} {
		if got := h.Get("Mcp-Param-" + name); got != want {
			t.Errorf("Mcp-Param-%s = %q, want %q", name, got, want)
		}
	}
}
