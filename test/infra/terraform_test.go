package infra

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// The configuration in docs/terraform.md names parameters and outputs of the template, and the
// capabilities of `make deploy`. Terraform itself does not run here.
func TestTerraformPage(t *testing.T) {
	x := expand(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "terraform.md"))
	require.OK(t, err)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.OK(t, err)
	_, block, _ := strings.Cut(string(page), "```hcl\n")
	block, _, _ = strings.Cut(block, "```")

	_, values, _ := strings.Cut(block, "parameters = {\n")
	values, _, _ = strings.Cut(values, "}")
	parameters := regexp.MustCompile(`(?m)^ *(\w+) *=`).FindAllStringSubmatch(values, -1)
	for _, m := range parameters {
		if _, ok := x.Parameters[m[1]]; !ok {
			t.Errorf("docs/terraform.md sets %s, which is no parameter of the template", m[1])
		}
	}
	outputs := regexp.MustCompile(`\.outputs\["(\w+)"\]`).FindAllStringSubmatch(block, -1)
	for _, m := range outputs {
		if _, ok := x.Outputs[m[1]]; !ok {
			t.Errorf("docs/terraform.md reads %s, which is no output of the template", m[1])
		}
	}
	if len(parameters) < 3 || len(outputs) < 3 {
		t.Errorf(
			"found %d parameters and %d outputs: the search is broken",
			len(parameters),
			len(outputs),
		)
	}
	for _, capability := range regexp.MustCompile(`CAPABILITY_\w+`).FindAllString(string(makefile), -1) {
		if !strings.Contains(block, `"`+capability+`"`) {
			t.Errorf("docs/terraform.md does not give %s, which make deploy gives", capability)
		}
	}
}
