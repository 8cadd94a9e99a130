package fleettest_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// parse returns the definitions of a catalog by id. An invalid definition ends the test.
func parse(t *testing.T, c fleettest.Catalog) map[string]tool.Definition {
	t.Helper()
	out := map[string]tool.Definition{}
	for server, tools := range c {
		for _, raw := range tools {
			d, err := tool.ParseItem(tool.Tool, raw)
			require.OK(t, err)
			out[server+":"+d.Name] = d
		}
	}
	return out
}

func TestMadeUp(t *testing.T) {
	for _, size := range [][2]int{{70, 527}, {100, 1500}, {10, 60}} {
		c := fleettest.MadeUp(size[0], size[1])
		tools := parse(t, c)
		if len(c) != size[0] || c.Len() != size[1] || len(tools) != size[1] {
			t.Errorf("%d servers, %d tools, %d different, want %v", len(c), c.Len(), len(tools), size)
		}
		tiers := map[tool.Tier]int{}
		bytes := 0
		for _, d := range tools {
			tiers[d.Annotations.Tier()]++
			bytes += len(d.Raw)
		}
		if len(tiers) != 3 || bytes/len(tools) < 300 {
			t.Errorf("tiers %v, %d bytes a tool", tiers, bytes/len(tools))
		}
		if !reflect.DeepEqual(c, fleettest.MadeUp(size[0], size[1])) {
			t.Error("a second run creates a different catalog")
		}
	}
}

func TestUpdate(t *testing.T) {
	check := func(t *testing.T, c fleettest.Catalog) {
		u := fleettest.NewUpdate(c)
		before, now := parse(t, u.Before), parse(t, u.Now)
		var added, changed []string
		for id, d := range now {
			switch old, known := before[id]; {
			case !known:
				added = append(added, id)
			case old.Hash != d.Hash:
				changed = append(changed, id)
			}
		}
		slices.Sort(added)
		if len(added) != 40 || !slices.Equal(added, u.New) || len(now) != len(before)+40 {
			t.Errorf("new tools %q, but Update.New is %q", added, u.New)
		}
		slices.Sort(changed)
		said := slices.Sorted(slices.Values([]string{u.Word, u.Parameter, u.Hidden}))
		if len(slices.Compact(said)) != 3 || !slices.Equal(changed, said) {
			t.Errorf("changed tools %q, but the Update has %q", changed, said)
		}
		if got, want := strings.Replace(now[u.Word].Description, " "+fleettest.Word, "", 1), before[u.Word].Description; got != want {
			t.Errorf("the change is more than one added word:\n%s\n%s", want, got)
		}
		if got, want := strings.Replace(now[u.Hidden].Description, fleettest.Character, "", 1), before[u.Hidden].Description; got != want {
			t.Errorf("the change is more than one added character:\n%s\n%s", want, got)
		}
		var schema struct{ Properties map[string]json.RawMessage }
		require.OK(t, json.Unmarshal(now[u.Parameter].InputSchema, &schema))
		if schema.Properties[fleettest.Parameter] == nil {
			t.Errorf("no parameter was added: %s", now[u.Parameter].Raw)
		}
		if len(u.Waiting()) != 43 || u.Denied == u.Failing || u.Failing == u.Slow || u.Slow == u.Denied {
			t.Errorf("%d tools wait; failing servers %s, %s, %s", len(u.Waiting()), u.Denied, u.Failing, u.Slow)
		}
		for _, id := range u.Waiting() {
			if server, _, _ := strings.Cut(id, ":"); slices.Contains([]string{u.Denied, u.Failing, u.Slow}, server) {
				t.Errorf("%s waits, but its server fails", id)
			}
		}
	}
	t.Run("made up", func(t *testing.T) { check(t, fleettest.MadeUp(12, 140)) })
	t.Run("real", func(t *testing.T) { check(t, local.Tools(t)) })
}

func TestHostile(t *testing.T) {
	before, now := fleettest.Hostile()
	if len(before) != len(now) {
		t.Fatalf("%d before, %d now", len(before), len(now))
	}
	names := map[string]bool{}
	longest := 0
	for i := range now {
		old, err := tool.ParseItem(tool.Tool, before[i])
		require.OK(t, err)
		d, err := tool.ParseItem(tool.Tool, now[i])
		if (err != nil) != (old.Name == fleettest.TooLarge) {
			t.Errorf("%s: %v", old.Name, err)
		}
		if err == nil && (d.Name != old.Name || d.Hash == old.Hash) {
			t.Errorf("%s becomes %s, hash %s", old.Name, d.Name, d.Hash)
		}
		names[old.Name] = true
		longest = max(longest, len(d.Raw))
	}
	if len(names) != len(now) || longest < tool.MaxDefinition*9/10 {
		t.Errorf("%d names of %d tools; the longest definition has %d bytes: %q", len(names), len(now), longest, slices.Sorted(maps.Keys(names)))
	}
}
