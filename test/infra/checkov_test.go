package infra

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each finding of checkov needs a line with a reason, and each line needs a finding.
func TestCheckovSkips(t *testing.T) {
	python := filepath.Join(filepath.Dir(sam(t)), "python")
	const found = `{"summary":{"passed":7,"parsing_errors":0},"results":{"failed_checks":[{"check_id":"CKV_AWS_1","file_path":"/infra/data.yaml","resource":"AWS::S3::Bucket.Bucket","check_name":"It is wrong"}]}}`
	for _, c := range []struct{ name, report, skips, want string }{
		{"a finding with a reason", found, "# why\nCKV_AWS_1 infra/*:AWS::S3::Bucket.* It is meant.\n", ""},
		{"a finding", found, "", "CKV_AWS_1 infra/data.yaml:AWS::S3::Bucket.Bucket: It is wrong"},
		{"a finding of another resource", found, "CKV_AWS_1 infra/*:AWS::SNS::Topic.* It is meant.\n", "CKV_AWS_1 infra/data.yaml:AWS::S3::Bucket.Bucket: It is wrong"},
		{"a line without a finding", found, "CKV_AWS_1 * It is meant.\nCKV_AWS_2 * Gone.\n", ":2: this finding no longer exists: remove CKV_AWS_2 *"},
		{"no reason", found, "CKV_AWS_1 *\n", ":1: want an id, a resource and why"},
		{"a template that is not read", `{"summary":{"passed":7,"parsing_errors":1},"results":{"failed_checks":[]}}`, "", "could not read everything"},
		{"nothing checked", `[{"summary":{"passed":0,"parsing_errors":0},"results":{"failed_checks":[]}}]`, "", "could not read everything"},
		{"no report", "Traceback", "", "checkov gave no report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			program, skips := filepath.Join(dir, "checkov"), filepath.Join(dir, "skips.txt")
			require.OK(t, os.WriteFile(program, []byte("#!/bin/sh\ncat <<'E'\n"+c.report+"\nE\nexit 1\n"), 0o755))
			require.OK(t, os.WriteFile(skips, []byte(c.skips), 0o600))
			cmd := exec.CommandContext(t.Context(), python, "infra/checkov.py", program, skips, "infra/data.yaml")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("the script ends with %v and prints %s, want %q", err, out, c.want)
			}
		})
	}
}
