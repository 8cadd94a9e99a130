package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a lenient request contains unknown names, each answer of the gateway's own tools names them.
// Answers of servers do not change.
func TestDroppedNamesAreReported(t *testing.T) {
	for _, mode := range []string{"search", "direct"} {
		o := newToolsetGateway(t, mode, `{}`)
		inEachProtocol(t, func(t *testing.T, e protocol) {
			c := &mcpClient{program: o.program, protocol: e, header: headers(
				"X-MCP-Toolsets", "zap, files", "X-MCP-Tools", "nope", "Prefer", "respond-async, handling=lenient")}
			list := c.send("tools/list", map[string]any{})
			answers := map[string]json.RawMessage{"tools/list": list.Result}
			if mode == "search" {
				found, _, _ := c.tool("retrieve_tools", map[string]any{"query": "file"})
				answers["retrieve_tools"] = found.Result
			}
			for what, result := range answers {
				r := require.JSON[struct {
					Meta struct {
						Ignored []string `json:"dev.portcullis/ignored"`
					} `json:"_meta"`
				}](t, result)
				if diff := cmp.Diff([]string{"nope", "zap"}, r.Meta.Ignored); diff != "" {
					t.Errorf("%s, %s: %s", mode, what, diff)
				}
			}
			name, args := "call_tool_read", map[string]any{"name": "files:get_file"}
			if mode == "direct" {
				name, args = "files__get_file", map[string]any{}
			}
			if a, text, isError := c.tool(name, args); isError || text != "get_file" || strings.Contains(a.Body, "ignored") {
				t.Errorf("%s: the call answers %s", mode, a.Body)
			}
		})
	}
}

// A list is for one caller: no proxy may cache it for another.
func TestAFilteredListIsPrivate(t *testing.T) {
	for _, mode := range []string{"search", "direct"} {
		o := newToolsetGateway(t, mode, `{}`)
		for _, h := range []http.Header{nil, headers("X-MCP-Toolsets", "files")} {
			c := &mcpClient{program: o.program, protocol: protocols[0], header: h}
			a := c.send("tools/list", map[string]any{})
			var r struct{ CacheScope string }
			if err := json.Unmarshal(a.Result, &r); err != nil || r.CacheScope != "private" || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s, %v: cacheScope %q, Cache-Control %q", mode, h, r.CacheScope, a.Header.Get("Cache-Control"))
			}
		}
	}
}

// CORS allows web pages to send every header that narrows a request.
func TestPagesMayNarrow(t *testing.T) {
	o := newToolsetGateway(t, "search", `{}`)
	for _, path := range []string{"/mcp", "/mcp/readonly", "/mcp/x/files"} {
		a := o.Do(http.MethodOptions, path, "", headers("Origin", o.URL, "Access-Control-Request-Method", "POST"))
		allowed := ", " + strings.ToLower(a.Header.Get("Access-Control-Allow-Headers")) + ","
		for _, name := range toolset.Headers() {
			if !strings.Contains(allowed, ", "+strings.ToLower(name)+",") {
				t.Errorf("%s: %s is not in Access-Control-Allow-Headers%s", path, name, allowed)
			}
		}
	}
}

// The gateway reads the headers of every request: no session keeps an earlier value.
func TestSelectionPerRequest(t *testing.T) {
	o := newToolsetGateway(t, "direct", `{}`)
	inEachProtocol(t, func(t *testing.T, e protocol) {
		for range 2 {
			for header, want := range map[string]int{"files": 3, "folders": 3, "all": 6, "": 6} {
				c := &mcpClient{program: o.program, protocol: e}
				if header != "" {
					c.header = headers("X-MCP-Toolsets", header)
				}
				if got := c.listed(); len(got) != want {
					t.Errorf("%q lists %v, want %d tools", header, got, want)
				}
			}
		}
	})
}

// Three kinds of tools are refused with the same text: tools that the operator does not offer,
// tools outside the path, and unknown tools.
func TestNamesOutsideTheBound(t *testing.T) {
	o := newToolsetGateway(t, "search", `{"toolsets": ["files"]}`)
	inEachProtocol(t, func(t *testing.T, e protocol) {
		refusal := func(header, name string) string {
			c := &mcpClient{program: o.program, protocol: e, header: headers(header, name)}
			a := c.open()
			return fmt.Sprint(a.Status, " ", strings.ReplaceAll(a.Body, name, "NAME"))
		}
		want := refusal("X-MCP-Tools", "nope")
		for _, name := range []string{"get_folder", "folders:get_folder", "folders:nope", "elsewhere:get_file"} {
			if got := refusal("X-MCP-Tools", name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if got, want := refusal("X-MCP-Toolsets", "folders"), refusal("X-MCP-Toolsets", "nope"); got != want {
			t.Errorf("refusal of a toolset that is not offered: %s, want the refusal of an "+
				"unknown toolset: %s", got, want)
		}
	})
}

// Cases 6 and 7 of the document: the file is refused, with every fault at once.
func TestOperatorSelectionRefused(t *testing.T) {
	for _, c := range []struct {
		name, tools string
		faults      []string
	}{
		{"6 nothing offered", `{"toolsets": []}`, []string{"No tools left: toolsets is empty and so is enabled"}},
		{"7 unknown toolsets, each one", `{"toolsets": ["files", "nope", "zap"]}`, []string{"Unknown toolset: nope", "Unknown toolset: zap"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newToolsetGateway(t, "direct", `{}`)
			programtest.WriteConfig(t, o.dir, o.configOf(c.tools))
			var state struct {
				State struct {
					Config struct {
						Stale  bool
						Faults []struct{ Path, Message string }
					}
				}
			}
			local.Until(t, "the faults are shown", func() bool {
				o.Ask(http.StatusOK, "/admin/health", nil, &state)
				return state.State.Config.Stale
			})
			var got []string
			for _, f := range state.State.Config.Faults {
				got = append(got, f.Message)
			}
			if diff := cmp.Diff(c.faults, got); diff != "" {
				t.Error(diff)
			}
			if n := len((&mcpClient{program: o.program, protocol: protocols[1]}).listed()); n != 6 {
				t.Errorf("the good file is not in use: %d tools are listed", n)
			}
		})
	}
}

// Cases 8 and 9: a problem that only the servers' lists show is a warning.
func TestUnknownToolsAreWarnings(t *testing.T) {
	o := newToolsetGateway(t, "search", `{"enabled": ["nope"], "disabled": ["zip", "files:zap"]}`)
	var health struct {
		Status string
		State  struct{ Warnings []string }
	}
	o.Ask(http.StatusOK, "/admin/health", nil, &health)
	want := []string{
		"config/mcp_config.json:tools.enabled[0]: Unknown enabled tool: nope", "config/mcp_config.json:tools.disabled[0]: Unknown disabled tool: zip",
		"config/mcp_config.json:tools.disabled[1]: Unknown disabled tool: files:zap",
	}
	if diff := cmp.Diff(want, health.State.Warnings); diff != "" || health.Status != "ok" {
		t.Errorf("status %q, warnings %s", health.Status, diff)
	}
}
