package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/write-policy.md")
	require.OK(t, err)
	attributes, err := os.ReadFile("../../../docs/policy.md")
	require.OK(t, err)
	blocks := regexp.MustCompile("(?s)```cedar\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) != 13 {
		t.Errorf(
			"docs/write-policy.md has %d Cedar blocks, want 3 examples and ten policies",
			len(blocks),
		)
	}
	for _, b := range blocks {
		if _, err := Parse([]byte(b[1])); err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
	for _, name := range mustReadDir(t, "testdata/policies") {
		if !strings.HasSuffix(name, ".cedar") {
			continue
		}
		src, err := os.ReadFile("testdata/policies/" + name)
		require.OK(t, err)
		if !strings.Contains(string(doc), "```cedar\n"+string(src)+"```") {
			t.Errorf("docs/write-policy.md does not show %s unchanged", name)
		}
	}
	for _, a := range []string{"server", "name", "tier", "readOnly", "destructive", "idempotent", "openWorld"} {
		if !strings.Contains(string(attributes), "`"+a+"`") {
			t.Errorf("docs/policy.md does not name the attribute %s", a)
		}
	}
}
