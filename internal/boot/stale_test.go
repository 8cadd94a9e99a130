package boot

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The metric ConfigStale counts an unused policy like an unused config, because the operators'
// alarm uses only this metric.
func TestSyncCountsAStaleFile(t *testing.T) {
	const config1, policy1 = `{"mcpServers": {}}`, `forbid (principal, action, resource);`
	for _, c := range []struct {
		name, config, policy string
		want                 float64
	}{
		{"both good", config1, policy1, 0},
		{"no policy", config1, "", 0},
		{"policy broken", config1, "forbid (", 1},
		{"config broken", `{"mcpServers": []}`, policy1, 1},
		{"policy gone", config1, "gone", 1},
		{"config gone", "gone", policy1, 1},
		{"policy emptied", config1, " ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, out := &objecttest.Mem{}, &strings.Builder{}
			put := func(key, data string) {
				switch data {
				case "":
					return
				case "gone":
					require.OK(t, objects.Delete(t.Context(), key))
					return
				}
				if _, err := objects.Put(t.Context(), key, []byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			p := New(Settings{}, Stores{Objects: objects, Approvals: &approvaltest.Mem{}}, Options{Function: "sync", Log: slog.New(slog.NewJSONHandler(out, nil))})
			put(config.Key, config1)
			if c.name != "no policy" {
				put(policy.Key, policy1)
			}
			if _, err := p.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			put(config.Key, c.config)
			put(policy.Key, c.policy)
			if _, err := p.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []float64
			for line := range strings.Lines(out.String()) {
				var m struct{ ConfigStale *float64 }
				require.OK(t, json.Unmarshal([]byte(line), &m))
				if m.ConfigStale != nil {
					got = append(got, *m.ConfigStale)
				}
			}
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("ConfigStale = %v, want %v, in\n%s", got, c.want, out)
			}
		})
	}
}
