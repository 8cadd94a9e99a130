package state

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

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
