package state

import (
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The operator's offer is resolved again only if the outcome of a server has changed, not after
// every load.
func TestBoundIsKept(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers":{"fs":{"url":"https://fs.example.com/mcp"},"git":{"url":"https://git.example.com/mcp"}}}`))
	require.OK(t, err)
	d, err := tool.ParseItem(tool.Tool, []byte(`{"name":"read"}`))
	require.OK(t, err)
	built, err := catalog.Build(catalog.Input{Servers: []catalog.ServerInput{
		{Name: "fs", Enabled: true, Tools: []catalog.ToolInput{{Definition: d}}}, {Name: "git", Enabled: true},
	}})
	require.OK(t, err)
	objects, at := &objecttest.Mem{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// next returns the catalog after another sync.
	next := func(git outcome.Status) *catalog.Snapshot {
		at = at.Add(time.Minute)
		s, err := catalog.Save(t.Context(), objects, built, catalog.Current{SyncedAt: at, Outcomes: []outcome.Outcome{
			{ServerID: "fs", Status: outcome.Available, CheckedAt: at}, {ServerID: "git", Status: git, CheckedAt: at},
		}}, "")
		require.OK(t, err)
		return s
	}
	last := derive(inputs{cfg: cfg, snap: next(outcome.Available), decided: &approval.Decisions{}, stopped: &stopped{}}, nil)
	for _, step := range []struct {
		name string
		git  outcome.Status
		kept bool
	}{
		{"nothing", outcome.Available, true},
		{"a server that fails", outcome.Transient, false},
		{"it fails again", outcome.Transient, true},
		{"it is broken", outcome.Permanent, false},
		{"it is back", outcome.Available, false},
	} {
		r := derive(inputs{cfg: cfg, snap: next(step.git), decided: last.decided, stopped: last.stopped}, last)
		if kept := r.bound == last.bound; kept != step.kept {
			t.Errorf("%s: kept %t, want %t", step.name, kept, step.kept)
		}
		last = r
	}
}

// A tool that only runs as a task is no fault that its server has to fix.
func TestCountServersRefused(t *testing.T) {
	server := func(name string, reasons ...string) Server {
		s := Server{Config: config.Server{Name: name, Enabled: true}}
		for _, reason := range reasons {
			s.Outcome.Refused = append(s.Outcome.Refused, outcome.Refusal{Reason: reason})
		}
		return s
	}
	c := countServers([]Server{server("a"), server("b", outcome.RefusedTask), server("c", outcome.RefusedTask, "bad name")}, new(stopped))
	if !slices.Equal(c.Refused, []string{"c"}) {
		t.Errorf("Refused = %q", c.Refused)
	}
}
