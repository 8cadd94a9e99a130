package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A dashboard has the members that Grafana's importer needs.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Datasource  source
		Targets     []struct {
			RefID      string
			Expr       string
			Datasource source
		}
	}
}

// A source names the variable of the data source, so that the dashboard fits any Grafana.
type source struct{ Type, UID string }

var (
	metricName = regexp.MustCompile(`\b(?:portcullis|go|process)_[a-z_]+`)
	ofSeries   = regexp.MustCompile(`_(bucket|sum|count)$`) // of a histogram
)

// has reports whether the metrics have a metric, or a series of a histogram.
func has(all, name string) bool {
	if strings.Contains(all, "\n# TYPE "+name+" ") {
		return true
	}
	family := ofSeries.ReplaceAllString(name, "")
	return family != name && strings.Contains(all, "\n# TYPE "+family+" ") &&
		strings.Contains(all, "\n"+name)
}

// Grafana can import the dashboard, and each query names metrics that the gateway has.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "infra", "grafana-dashboard.json"))
	require.OK(t, err)
	var d dashboard
	require.OK(t, json.Unmarshal(data, &d))
	if d.Title == "" || d.UID == "" || len(d.UID) > 40 || d.SchemaVersion < 36 ||
		len(d.Panels) < 10 {
		t.Errorf(
			"title %q, uid %q, schema %d, %d panels",
			d.Title,
			d.UID,
			d.SchemaVersion,
			len(d.Panels),
		)
	}
	all := text(t, newMeasured(t))
	exists := func(query string) {
		t.Helper()
		named := metricName.FindAllString(query, -1)
		if len(named) == 0 || strings.Count(query, "(") != strings.Count(query, ")") {
			t.Errorf("%s is no query of a metric", query)
		}
		for _, name := range named {
			if !has(all, name) {
				t.Errorf("%s names %s, which does not exist", query, name)
			}
		}
	}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		if variables[v.Name] = true; v.Type == "query" {
			exists(v.Definition)
		}
	}
	if !variables["datasource"] || !variables["instance"] {
		t.Errorf("the variables are %v", variables)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Type == "" || p.Title == "" || len(p.Targets) == 0 ||
			p.Datasource != (source{"prometheus", "${datasource}"}) {
			t.Errorf("panel %d %q lacks a member, or has the id of another panel", p.ID, p.Title)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q is outside the grid: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q is above %q", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.RefID == "" || refs[q.RefID] || q.Datasource != p.Datasource ||
				!strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("panel %q: query %+v lacks a member", p.Title, q)
			}
			refs[q.RefID] = true
			exists(q.Expr)
		}
	}
}
