package config

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestAuditAndStop(t *testing.T) {
	const servers = `{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp"}}, `
	cfg, err := Parse([]byte(servers + `"audit": {}, "stop": {}}`))
	require.OK(t, err)
	if cfg.Audit != (Audit{Arguments: "none", Days: 30, MaxBytes: 10 << 30}) || len(cfg.Stop.List) > 0 || cfg.Review.FourEyes != "off" {
		t.Errorf("defaults: %+v %+v %+v", cfg.Audit, cfg.Stop, cfg.Review)
	}
	for member, want := range map[string]string{
		`"audit": {"days": 0}`:                                   "audit.days: is not a number of days from 1 to 36500",
		`"audit": {"days": 1.5}`:                                 "audit.days: is not a whole number",
		`"audit": {"days": 99999999999999999999}`:                "audit.days: is not a whole number",
		`"audit": {"days": "7"}`:                                 "audit.days: want a number",
		`"audit": {"max_bytes": 16777215}`:                       "audit.max_bytes: is not a number of bytes from 16777216 (16 MiB)",
		`"audit": {"max_bytes": "10 GiB"}`:                       "audit.max_bytes: want a number",
		`"audit": {"arguments": "all"}`:                          "audit.arguments",
		`"stop": {"servers": ["fs", "sf"]}`:                      `stop.servers[1]: there is no server "sf" in mcpServers`,
		`"stop": {"agents": [" "]}`:                              "stop.agents[0]: is empty",
		`"stop": {"reason": "a\nb"}`:                             "stop.reason: is not one line",
		`"stop": {"reason": "` + strings.Repeat("x", 257) + `"}`: "stop.reason: is not one line of at most 256 bytes",
		`"stop": {"all": "yes"}`:                                 "stop.all: want",
		`"review": {"four_eyes": "write"}`:                       `review.four_eyes: "write" is not one of off, destructive, all`,
	} {
		_, err := Parse([]byte(servers + member + "}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", member, err, want)
		}
	}
}
