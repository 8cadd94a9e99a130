package agenteval_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/agenteval"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestReadTasks(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no JSON", `{`, "want a list of"},
		{"no list", `{"task":"a"}`, "want a list of"},
		{"an unknown member", `[{"task":"a","search":["x"]}]`, `unknown field "search"`},
		{"no task", `[]`, "the list has no task"},
		{"every fault", `[{"task":"a","searches":["x"],"tools":["s:t"]},{"task":"b","searches":[" "],"tools":["t"]},{"task":"c"}]`,
			`task 2: "searches" needs one text or more, none of them empty` + "\n" +
				`task 2: "tools": tool id "t" is not of the form server:tool, server:prompt:name or server:resource:uri` + "\n" +
				`task 3: "searches" needs one text or more, none of them empty` + "\n" + `task 3: "tools" needs one tool or more`},
	} {
		if _, err := agenteval.ReadTasks(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Run searches until it has seen every needed tool. The result is the same for both forms of an
// answer, JSON and lines.
func TestRun(t *testing.T) {
	tasks, err := agenteval.ReadTasks(strings.NewReader(`[
		{"task":"one search","searches":["a","never"],"tools":["s:a"]},
		{"task":"by name alone","searches":["a"],"tools":["s:more","t:more"]},
		{"task":"two searches","searches":["a","b","never"],"tools":["s:a","s:b"]},
		{"task":"locked","searches":["a"],"tools":["s:a","s:shut"]},
		{"task":"locked at first","searches":["a","b"],"tools":["s:free"]},
		{"task":"not there","searches":["a","b"],"tools":["s:gone","s:shut"]}]`))
	require.OK(t, err)
	want := agenteval.Report{Tasks: 6, Solved: 4, Locked: 1, Searches: 9, Results: []agenteval.Result{
		{Task: "one search", Solved: true, Searches: 1},
		{Task: "by name alone", Solved: true, Searches: 1},
		{Task: "two searches", Solved: true, Searches: 2},
		{Task: "locked", Searches: 1, Locked: []string{"s:shut"}},
		{Task: "locked at first", Solved: true, Searches: 2},
		{Task: "not there", Searches: 2, Locked: []string{"s:shut"}, Missing: []string{"s:gone"}},
	}}
	for form, answers := range map[string]map[string]string{
		"json": {
			"a": `{"tools":[{"name":"s:a","description":"s:gone"}],"more":["s:more","t:more"],"total":2,"disabled":[{"name":"s:shut"},{"name":"s:free"}]}`,
			"b": `{"tools":[{"name":"s:b"},{"name":"s:free"}],"total":2}`,
		},
		"lines": {
			"a": "call_with: call_tool_read\ns:a(x:string) s:gone\nmore: s: more; t: more\nlocked:\ns:shut [pending_approval] s:gone\ns:free [pending_approval]\npending_approval: s:gone\nnotice: s:gone\n",
			"b": "call_with: call_tool_read\ns:b() Do.\ns:free() [write] Do.\n",
		},
	} {
		got, err := agenteval.Run(t.Context(), tasks, func(_ context.Context, query string) (string, error) {
			if answer, ok := answers[query]; ok {
				return answer, nil
			}
			return "", errors.New("no more searches are needed")
		})
		require.OK(t, err)
		bytes := 0
		for i := range got.Results {
			bytes += got.Results[i].Bytes
			if got.Results[i].Bytes < len(answers["b"]) {
				t.Errorf("%s: %s has %d bytes", form, got.Results[i].Task, got.Results[i].Bytes)
			}
			got.Results[i].Bytes = 0
		}
		if got.Bytes != bytes {
			t.Errorf("%s: the report has %d bytes, the tasks together have %d",
				form, got.Bytes, bytes)
		}
		got.Bytes = 0
		if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

func TestRunEnds(t *testing.T) {
	broken := errors.New("broken")
	_, err := agenteval.Run(t.Context(), []agenteval.Task{{Searches: []string{"a"}, Tools: []string{"s:a"}}},
		func(context.Context, string) (string, error) { return "", broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), `search "a"`) {
		t.Errorf("Run = %v", err)
	}
}
