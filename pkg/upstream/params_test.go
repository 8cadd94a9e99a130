package upstream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

func TestCallParams(t *testing.T) {
	const own = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"0.0.0"},"io.modelcontextprotocol/clientCapabilities":`
	modern, legacy := mcpSession{modern: true, version: versionModern}, mcpSession{version: versionLegacy}
	for _, tt := range []struct {
		name    string
		session mcpSession
		call    Call
		want    string
	}{
		{"nothing but the name", legacy, Call{Name: "t"}, `{"name":"t"}`},
		{"metadata of the leg", modern, Call{Name: "t"}, `{"name":"t","_meta":{` + own + `{}}}`},
		{"arguments byte for byte", legacy,
			Call{Name: "t", Params: json.RawMessage(`{"arguments": {"n":9007199254740993, "z":1.0,"a":"\u00e9\/","a":2} }`)},
			`{"name":"t","arguments":{"n":9007199254740993, "z":1.0,"a":"\u00e9\/","a":2}}`},
		{"answers to questions byte for byte", modern,
			Call{Name: "t", Params: json.RawMessage(`{"name":"srv__t","inputResponses":{"q" : {"action":"accept"}},"requestState":"eyJ\u002b","new":[1e2]}`)},
			`{"name":"t","inputResponses":{"q" : {"action":"accept"}},"requestState":"eyJ\u002b","new":[1e2],"_meta":{` + own + `{}}}`},
		{"no member that a server could take for the name", legacy,
			Call{Name: "safe", Params: json.RawMessage(`{"Name":"rm","NAME":"rm","Arguments":{},"argument\u017f":{},"_META":{},"name":"rm","arguments":{}}`)},
			`{"name":"safe","arguments":{}}`},
		{"no task", modern, Call{Name: "t", Params: json.RawMessage(`{"task":{"ttl":1},"arguments":{}}`)}, `{"name":"t","arguments":{},"_meta":{` + own + `{}}}`},
		{"the caller's own leg stays here", modern,
			Call{Name: "t", Params: json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"1","io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/logLevel":"debug","progressToken":7,"com.example/k":{"b":1,"a":[ ]}}}`)},
			`{"name":"t","_meta":{` + own + `{},"com.example/k":{"b":1,"a":[ ]}}}`},
		{"capabilities without tasks and user interfaces", modern,
			Call{Name: "t", Meta: CallMeta{Raw: json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{ }},"tasks":{},"extensions":{"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/tasks":{},"com.example/x":{"a":1.0}}}}`)}},
			`{"name":"t","_meta":{` + own + `{"elicitation":{"form":{ }},"extensions":{"com.example/x":{"a":1.0}}}}}`},
		{"capabilities that are none", modern, Call{Name: "t", Meta: CallMeta{Raw: json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":"all"}`)}},
			`{"name":"t","_meta":{` + own + `{}}}`},
		{"trace of the HTTP request", legacy, Call{Name: "t", Meta: CallMeta{Traceparent: trace, Tracestate: "a=b"}},
			`{"name":"t","_meta":{"traceparent":"` + trace + `","tracestate":"a=b"}}`},
		{"trace of the metadata before it", legacy,
			Call{Name: "t", Meta: CallMeta{Traceparent: strings.Replace(trace, "0a", "0b", 1), Raw: json.RawMessage(`{"traceparent":"` + trace + `","baggage":"k=v"}`)}},
			`{"name":"t","_meta":{"traceparent":"` + trace + `","baggage":"k=v"}}`},
		{"a trace that is none", legacy, Call{Name: "t", Meta: CallMeta{Traceparent: "00-zz", Tracestate: "a=b"}}, `{"name":"t"}`},
		{"a trace with a line break", legacy, Call{Name: "t", Meta: CallMeta{Traceparent: trace + "\r\nX: y"}}, `{"name":"t"}`},
		{"metadata given apart wins", legacy,
			Call{Name: "t", Params: json.RawMessage(`{"_meta":{"a/b":1}}`), Meta: CallMeta{Raw: json.RawMessage(`{"c/d":2}`)}}, `{"name":"t","_meta":{"c/d":2}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := New(nil).callParams(tt.session, tt.call)
			if err != nil || string(got) != tt.want {
				t.Errorf("params = %s, %v\nwant     %s", got, err, tt.want)
			}
			if !json.Valid(got) {
				t.Error("params is not JSON")
			}
		})
	}
	for _, bad := range []Call{
		{Params: json.RawMessage(`[]`)}, {Params: json.RawMessage(`{`)}, {Params: json.RawMessage(`{"_meta":1}`)},
		{Params: json.RawMessage("{\"arguments\":\"\xff\"}")}, {Meta: CallMeta{Raw: json.RawMessage(`"x"`)}},
	} {
		if got, _, err := New(nil).callParams(modern, bad); err == nil {
			t.Errorf("params %s and metadata %s make %s, want an error", bad.Params, bad.Meta.Raw, got)
		}
	}
}

func TestTraceIsContinuedInHeadersToo(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern, Tools: tools(1)})
	_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL},
		Call{Name: "tool_aa", Meta: CallMeta{Raw: json.RawMessage(`{"traceparent":"` + trace + `","tracestate":"a=b"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if h := s.Calls()[0].Header; h.Get("Traceparent") != trace || h.Get("Tracestate") != "a=b" {
		t.Errorf("headers = %v", h)
	}
}

func TestResultsKeepTheirBytes(t *testing.T) {
	for _, result := range []string{
		`{"content":[{"type":"hologram","depth":9007199254740993,"x":1.0}],"zeta":1, "alpha":[1e2],"isError":false}`,
		`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"b":1,"a":2}}},"requestState":"a\u002bb"}`,
		`{"content":[],"structuredContent":{"k":1,"k":2},"lone":"\ud83d"}`,
		`{}`,
	} {
		for _, o := range []upstreamtest.Options{{Era: upstreamtest.Modern}, {Era: upstreamtest.Modern, SSE: true}, {Era: upstreamtest.Legacy}} {
			s := upstreamtest.New(t, o)
			s.FailOn("tools/call", -1, upstreamtest.Result(result))
			got, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x"})
			if err != nil || string(got) != result {
				t.Errorf("Call = %s, %v; want the bytes %s", got, err, result)
			}
		}
	}
}

func TestNameHeaderIsEncodedWhereNeeded(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern})
	if _, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "wetter für Köln"}); err != nil {
		t.Errorf("Call of a name that needs encoding = %v", err)
	}
}

func TestParametersBecomeHeadersWhereTheSchemaAsks(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"dry":{"type":"boolean","x-mcp-header":"Dry"},
		"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deeper"}}},
		"none":{"type":"string","x-mcp-header":"None"},"null":{"type":"string","x-mcp-header":"Null"},"big":{"type":"integer","x-mcp-header":"Big"},
		"wrong":{"type":"string","x-mcp-header":"Wrong"}}}`)
	s := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Modern})
	_, err := quick(t, Options{}).Call(t.Context(), Target{ID: "s", URL: s.URL}, Call{Name: "x", Schema: schema, Params: json.RawMessage(
		`{"arguments":{"region":"Köln","n":42.0,"dry":false,"deep":{"er":"a b"},"null":null,"big":9007199254740993,"wrong":[1]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	h := s.Calls()[0].Header
	for name, want := range map[string]string{
		"Region": "=?base64?S8O2bG4=?=", "N": "42", "Dry": "false", "Deeper": "a b", "None": "", "Null": "", "Big": "", "Wrong": "",
	} {
		if got := h.Get("Mcp-Param-" + name); got != want {
			t.Errorf("Mcp-Param-%s = %q, want %q", name, got, want)
		}
	}
}
