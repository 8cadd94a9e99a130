package config

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Parse accepts each config of the pages without a warning. A block without servers is a part of a
// config.
func TestConfigsOfTheDocs(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	require.OK(t, err)
	found := 0
	for _, page := range pages {
		for _, b := range jsonBlock.FindAllStringSubmatch(string(read(t, page)), -1) {
			text := b[1]
			if !isConfig.MatchString(text) || strings.Contains(text, `{"portcullis": {`) {
				continue // no config, or the file of a client
			}
			found++
			if !strings.Contains(text, `"mcpServers"`) {
				text = `{"mcpServers": {"payments": {"url": "https://pay.example.com/mcp"}}, ` +
					strings.TrimPrefix(text, "{")
			}
			cfg, err := Parse([]byte(text))
			if err != nil {
				t.Errorf("%s: %v in\n%s", filepath.Base(page), err, text)
			} else if len(cfg.Warnings) > 0 {
				t.Errorf("%s: %v in\n%s", filepath.Base(page), cfg.Warnings, text)
			}
		}
	}
	if found < 10 {
		t.Errorf("the pages have %d configs: the pattern is broken", found)
	}
}

var (
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")
	isConfig  = regexp.MustCompile(
		`^\{\s*"(mcpServers|gateway|tools|toolsets|notify|review|audit|stop)"|"mcpServers"`,
	)
)
