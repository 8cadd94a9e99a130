package infra

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The description of each alarm says what happened, and what to do. Each alarm has a row in
// docs/alarms.md, and each row has an alarm.
func TestAlarmsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "alarms.md"))
	require.OK(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Alarms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			rows = append(rows, name[1])
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "infra", "*.yaml"))
	require.OK(t, err)
	var names []string
	for _, path := range append(files, filepath.Join(root, "template.yaml")) {
		path, err := filepath.Rel(root, path)
		require.OK(t, err)
		x := nested(t, path)
		for _, name := range x.of("AWS::CloudWatch::Alarm") {
			names = append(names, name)
			text, _ := x.Resources[name].Properties["AlarmDescription"].(string)
			if strings.Count(text, ". ") == 0 && !strings.Contains(text, "; ") {
				t.Errorf("%s: the description of %s does not say what to do: %q", path, name, text)
			}
			if !slices.Contains(rows, name) {
				t.Errorf("docs/alarms.md has no row for the alarm %s of %s", name, path)
			}
		}
	}
	for _, row := range rows {
		if !slices.Contains(names, row) {
			t.Errorf("docs/alarms.md has a row for %s, but there is no such alarm", row)
		}
	}
	if len(names) < 20 {
		t.Errorf("found %d alarms: the search is broken", len(names))
	}
}

// docs/cost.md has the right number of metrics of alarms. AWS charges for each metric of an alarm.
func TestAlarmsCost(t *testing.T) {
	for label, c := range map[string]map[string]string{
		"metrics that the alarms of a stack use, by default": {"AuthMode": "token"},
		"the same with `SyncMode=fanout`":                    {"AuthMode": "token", "SyncMode": "fanout"},
	} {
		root := expand(t)
		d := root.deployed(t, c)
		metrics := metricsOf(d, root)
		for name, path := range map[string]string{"Observability": "infra/observability.yaml", "FanOut": "infra/fanout.yaml"} {
			if !d.has(name) {
				continue
			}
			values := map[string]string{}
			for p, v := range root.Resources[name].Properties["Parameters"].(map[string]any) {
				values[p] = d.text(v)
			}
			x := nested(t, path)
			metrics += metricsOf(x.deployed(t, values), x)
		}
		repo.WantCount(t, label, metrics)
	}
}

// metricsOf counts the metrics that the alarms of a template use.
func metricsOf(d deployment, x template) (n int) {
	for _, name := range x.of("AWS::CloudWatch::Alarm") {
		if !d.has(name) {
			continue
		}
		n += len(metricsOfAlarm(x.Resources[name].Properties))
	}
	return n
}
