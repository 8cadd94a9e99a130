package gateway_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const toolsPage = "docs/agent-tools.md"

func readToolsPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../..", toolsPage))
	require.OK(t, err)
	return string(page)
}

// A parameter is a parameter in an input schema.
type parameter struct {
	Type     string
	Enum     []string
	Default  any
	Items    struct{ Type string }
	MaxItems int
}

// The page has the parameters of each tool that tools/list can list, with their types and limits.
func TestToolsPageParameters(t *testing.T) {
	page, limits := readToolsPage(t), gateway.ArgumentLimits()
	gw := everyItem(t, `"gateway":{"requests":true}`)
	gw.Options.Requests = gw.Requests()
	gw.Restart()
	raw, err := gw.Open().ListTools(t.Context(), "")
	require.OK(t, err)
	list := require.JSON[struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Properties map[string]parameter
				Required   []string
			}
		}
	}](t, string(raw))
	if len(list.Tools) != 8 {
		t.Errorf("tools/list has %d tools, want all 8: %s", len(list.Tools), raw)
	}
	for _, tool := range list.Tools {
		heading := regexp.MustCompile(`(?m)^## .*\b` + tool.Name + `\b.*$`).FindString(page)
		if heading == "" {
			t.Errorf("%s has no heading for %s", toolsPage, tool.Name)
			continue
		}
		listed := map[string]bool{}
		for _, cells := range golden.Rows(t, page, "\n"+heading+"\n") {
			name := strings.Trim(cells[0], "`")
			p, ok := tool.InputSchema.Properties[name]
			if listed[name] = true; !ok {
				t.Errorf("%s: %s has no parameter %s", heading, tool.Name, name)
				continue
			}
			limit := limits[tool.Name+"."+name]
			if strings.HasPrefix(tool.Name, "call_tool_") {
				limit = limits["call_tool_read."+name]
			}
			want := []string{cells[0], p.kind(), "no", limit, cells[4], cells[5]}
			if slices.Contains(tool.InputSchema.Required, name) {
				want[2] = "yes"
			}
			if p.Default != nil {
				want[4] = fmt.Sprint(p.Default)
			}
			if !slices.Equal(cells, want) || cells[5] == "" {
				t.Errorf("%s: %s has the row %q, want %q", heading, name, cells, want)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(tool.InputSchema.Properties)) {
			if !listed[name] {
				t.Errorf("%s has no row for the parameter %s", heading, name)
			}
		}
	}
}

// kind returns a parameter's type as the page has it.
func (p parameter) kind() string {
	switch {
	case len(p.Enum) > 0:
		return "`" + strings.Join(p.Enum, "`, `") + "`"
	case p.Type == "array":
		return "list of " + p.Items.Type + "s"
	}
	return p.Type
}

// The page has each member of the answers' objects.
func TestToolsPageFields(t *testing.T) {
	page := readToolsPage(t)
	for head, v := range gateway.AnswerTypes() {
		var want []string
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != "" {
				want = append(want, tag)
			}
		}
		checkColumn(t, "field of "+head, golden.Rows(t, page, "| field of "+head+" |"), want)
	}
}

// The page has the statuses in their order with their texts, the reasons and the codes.
func TestToolsPageCodes(t *testing.T) {
	page := readToolsPage(t)
	statuses := golden.Rows(t, page, "| status |")
	for i, s := range lock.Statuses() {
		want := []string{"`" + string(s) + "`", lock.RemediationOf("tool", s, "")}
		if got := []string{statuses[i][0], statuses[i][3]}; !slices.Equal(got, want) {
			t.Errorf("status %d of the page is %q, want %q", i+1, got, want)
		}
	}
	checkColumn(t, "reason", golden.Rows(t, page, "| reason |"), outcome.Reasons())
	checkColumn(t, "server status", golden.Rows(t, page, "| server status |"), []string{
		string(outcome.Available), string(outcome.Transient),
		string(outcome.Permanent), string(outcome.Denied),
	})
	terms, err := os.ReadFile("../../base/mcp/mcp.go")
	require.OK(t, err)
	codes := []string{"403", "503", "other 4xx, 5xx", "other"}
	code := regexp.MustCompile(`(?m)^\tCode\w+ += (-?\d+)`)
	for _, m := range code.FindAllStringSubmatch(string(terms), -1) {
		codes = append(codes, m[1])
	}
	checkColumn(t, "code", golden.Rows(t, page, "| code |"), codes)
}

// The page has each key of _meta that the gateway reads or writes.
func TestToolsPageMeta(t *testing.T) {
	keys := map[string]bool{}
	key := regexp.MustCompile(`"((?:dev\.portcullis|anthropic)/\w+)"|` +
		`Meta\w+ += MetaPrefix \+ "(\w+)"|MetaProgressToken += "(\w+)"`)
	for _, pattern := range []string{"*.go", "../mcphttp/*.go", "../../base/mcp/*.go"} {
		files, err := filepath.Glob(pattern)
		require.OK(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.OK(t, err)
			for _, m := range key.FindAllStringSubmatch(string(text), -1) {
				if m[2] != "" {
					m[2] = "io.modelcontextprotocol/" + m[2]
				}
				keys[m[1]+m[2]+m[3]] = true
			}
		}
	}
	rows := golden.Rows(t, readToolsPage(t), "| key |")
	checkColumn(t, "key", rows, slices.Collect(maps.Keys(keys)))
}

// checkColumn compares the names in the first column of a table with want, in any order.
func checkColumn(t *testing.T, head string, rows [][]string, want []string) {
	t.Helper()
	var got []string
	for _, cells := range rows {
		name := strings.Trim(cells[0], "`")
		if slices.Contains(got, name) || !slices.Contains(want, name) {
			t.Errorf("%s: the table %q has a row for %s, which has a row already or does not exist",
				toolsPage, head, name)
		}
		got = append(got, name)
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s: the table %q has no row for %s", toolsPage, head, name)
		}
	}
}
