package config

import (
	"regexp"
	"testing"
)

func TestConfigsOfTheDocs(t *testing.T) {
	doc := string(read(t, "../../../docs/config.md"))
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) != 3 {
		t.Errorf("docs/config.md has %d JSON blocks, want 3", len(blocks))
	}
	for _, b := range blocks {
		cfg, err := Parse([]byte(b[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%v in\n%s", cfg.Warnings, b[1])
		}
	}
}

// The pages on requests and notices show parts of one config, without its servers.
func TestConfigsOfUnlocking(t *testing.T) {
	doc := string(read(t, "../../../docs/requests.md")) + string(read(t, "../../../docs/notify.md"))
	blocks := regexp.MustCompile("(?s)```json\n\\{(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) != 2 {
		t.Errorf("the pages have %d JSON blocks, want 2", len(blocks))
	}
	for _, b := range blocks {
		cfg, err := Parse([]byte(`{"mcpServers": {"payments": {"url": "https://pay.example.com/mcp"}}, ` + b[1]))
		if err != nil || len(cfg.Warnings) > 0 {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
}
