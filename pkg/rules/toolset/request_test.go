package toolset_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParseRequestRefuses(t *testing.T) {
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, tc := range []struct {
		name, path string
		header     http.Header
		want       string // the beginning of the message
		status     int
	}{
		{"an unknown path", "/nope", nil, "not found: ", 404},
		{"a path without a toolset", "/x/", nil, "not found: ", 404},
		{"a path of white space", "/x/ ", nil, "not found: ", 404},
		{"a path with more", "/x/a/b", nil, "not found: ", 404},
		{"the path is no header", "x/a", nil, "not found: ", 404},
		{"an unknown value of a switch", "", headers(readOnly, "maybe"), `X-MCP-Readonly is "maybe", which is none of `, 400},
		{"an empty switch", "", headers(readOnly, ""), `X-MCP-Readonly is ""`, 400},
		{"a long switch", "", headers(readOnly, strings.Repeat("x", 1000)), `X-MCP-Readonly is "` + strings.Repeat("x", 127) + `…"`, 400},
		{"two switches that disagree", "", headers(readOnly, "true", readOnly, "off"), "X-MCP-Readonly says both true and false", 400},
		{"the same, joined on the way", "", headers(readOnly, "true, off"), "X-MCP-Readonly says both true and false", 400},
		{"a list of 257 names", "", headers(tools, strings.Join(many, ",")), "X-MCP-Tools has more than 256 names", 400},
		{"over two headers", "", headers(exclude, strings.Join(many[:200], ","), "X-MCP-Disabled-Tools", strings.Join(many[100:], ",")), "X-MCP-Exclude-Tools has more than 256 names", 400},
		{"a list of 8193 bytes", "", headers(toolsets, strings.Repeat("x", 8193)), "X-MCP-Toolsets has more than 8192 bytes", 400},
		{"over two lines, with the comma between", "", headers(toolsets, strings.Repeat("x", 4096), toolsets, strings.Repeat("x", 4096)), "X-MCP-Toolsets has more than 8192 bytes", 400},
		{"everything at once", "", headers(readOnly, "2", tools, strings.Repeat("x", 8193), toolsets, strings.Repeat(",", 8193)),
			"X-MCP-Toolsets has more than 8192 bytes; X-MCP-Tools has more than 8192 bytes; X-MCP-Readonly is \"2\"", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := toolset.ParseRequest(tc.path, tc.header)
			e, ok := errors.AsType[*toolset.Error](err)
			if !ok || e.Status != tc.status || !strings.HasPrefix(e.Message, tc.want) {
				t.Fatalf("ParseRequest = %v, want status %d, %q", err, tc.status, tc.want)
			}
			if !reflect.ValueOf(got).IsZero() {
				t.Error("a refused request is not empty")
			}
		})
	}
}

func TestParseRequestLimits(t *testing.T) {
	names := make([]string, 256)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	list := strings.Join(names, ",") + "," + strings.Join(names, " , ") // duplicates do not count
	list += strings.Repeat(",", 8192-len(list))
	if _, err := toolset.ParseRequest("", headers(tools, list)); err != nil {
		t.Errorf("256 names in 8192 bytes: %v", err)
	}
}

// narrows reports whether a request asks for less than everything. Such a request is refused if
// nothing is left.
func narrows(t *testing.T, path string, h http.Header) bool {
	t.Helper()
	b, _ := sampleBound(t)
	_, e := choose(t, b, identity.Agent{}, path, h)
	return e != nil
}

func TestParseRequestSwitch(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "TRUE": true, "1": true, "yes": true, "On": true, "true , 1": true,
		"false": false, "0": false, "No": false, "off": false,
	} {
		if got := narrows(t, "", headers(readOnly, value)); got != want {
			t.Errorf("X-MCP-Readonly: %q = %v, want %v", value, got, want)
		}
	}
}

func TestRequestNarrows(t *testing.T) {
	for _, tc := range []struct {
		path   string
		header http.Header
		want   bool
	}{
		{"", nil, false},
		{"", headers(prefer, lenient, "Accept", "*/*", exclude, "", readOnly, "0"), false},
		{"/readonly", nil, true},
		{"/x/all", nil, true},
		{"", headers(toolsets, ""), true},
		{"", headers(tools, "a"), true},
		{"", headers(exclude, "a"), true},
		{"", headers(readOnly, "1"), true},
	} {
		if got := narrows(t, tc.path, tc.header); got != tc.want {
			t.Errorf("%q %v narrows: %v, want %v", tc.path, tc.header, got, tc.want)
		}
	}
}

func TestParseRequestPrefer(t *testing.T) {
	b, _ := sampleBound(t)
	for value, want := range map[string]bool{
		"handling=lenient": true, "HANDLING=Lenient": true, `handling="lenient"`: true, " handling = lenient ; a=b": true,
		"wait=5, handling=lenient": true, "handling=lenient, handling=strict": true,
		"handling=strict, handling=lenient": false, "handling": false, "lenient": false, "handling=lenient2": false, "": false,
	} {
		if _, e := choose(t, b, agent("a"), "", headers(prefer, value, tools, "a:one,nope")); (e == nil) != want {
			t.Errorf("Prefer: %q is lenient: %v, want %v", value, e == nil, want)
		}
	}
}

func TestParseRequestAliases(t *testing.T) {
	for _, pair := range [][2]string{{tools, "X-MCP-Enabled-Tools"}, {exclude, "X-MCP-Disabled-Tools"}} {
		var got []toolset.Request
		for _, h := range []http.Header{
			headers(pair[0], "a,b"), headers(pair[1], "a,b"), headers(pair[0], "b", pair[1], "a"), headers(strings.ToLower(pair[1]), "b", pair[1], "b, a"),
		} {
			req, err := toolset.ParseRequest("", h)
			require.OK(t, err)
			got = append(got, req)
		}
		for _, req := range got[1:] {
			if diff := cmp.Diff(got[0], req, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
				t.Errorf("%s and its alias differ:\n%s", pair[0], diff)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	got := toolset.Headers()
	for _, name := range []string{toolsets, tools, "X-MCP-Enabled-Tools", exclude, "X-MCP-Disabled-Tools", readOnly, prefer} {
		if !slices.Contains(got, name) {
			t.Errorf("Headers() = %q, without %s", got, name)
		}
	}
	if len(got) != 7 {
		t.Errorf("Headers() = %q, want 7", got)
	}
}

func TestErrorIsOneCleanLine(t *testing.T) {
	b, _ := sampleBound(t)
	name := "x\u202e\x1b[2J\xff\u2028y" + strings.Repeat("z", 500)
	_, e := choose(t, b, agent("a"), "/x/"+name, headers(tools, name))
	if e == nil {
		t.Fatal("want an error")
	}
	want := "x\uFFFD\uFFFD[2J\uFFFD\uFFFDy" + strings.Repeat("z", 118) + "…"
	if !strings.HasPrefix(e.Message, "Unknown toolset: "+want+". ") || !strings.Contains(e.Message, "Unknown tool: "+want+". ") {
		t.Errorf("message = %q", e.Message)
	}
}
