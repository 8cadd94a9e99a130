package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// mine is a config with two servers. One server's header refers to a variable with a secret.
const mine = `{
  "mcpServers": {
    "files": {"url": "https://files.example/mcp", "headers": {"Authorization": "Bearer ${env:FILES_TOKEN}"}, "disabled_tools": ["delete_*"]},
    "later": {"url": "https://later.example/mcp"}
  }
}`

func TestCheckSession(t *testing.T) {
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`), upstreamtest.Tool("delete_file", "Delete a file.", "")},
		"old":   {upstreamtest.Tool("x", "X.", "")},
	}, upstreamtest.Options{})
	dir := t.TempDir()
	s := newTerminal(t, map[string]string{dir: "DIR"})
	s.must(1, "check", dir)
	before := servers(all).config(each(""), "")
	programtest.WriteConfig(t, dir, before)
	version := object.Version([]byte(before))
	s.names[version], s.names[short(version)] = "BEFORE", "BEFORE"
	s.must(0, "check", dir)
	require.OK(t, start(t, dir).stop())
	s.must(0, "check", dir)
	programtest.WriteConfig(t, dir, mine)
	programtest.WritePolicy(t, dir, "@id(\"ci-reads\")\nforbid (principal, action, resource)\nwhen { principal.id like \"ci-*\" }\nunless { resource.readOnly };\n")
	s.must(0, "check", dir)
	s.must(0, "check", dir, "-o", "json")
	s.objects = &objecttest.Mem{}
	copied(t, dir, s.objects, "catalog")
	s.must(0, "aws", "push", "--dir", dir, "--bucket", "b", "--dry-run")
	if _, err := s.objects.Get(t.Context(), "config/mcp_config.json", ""); err == nil {
		t.Error("a dry run has stored something")
	}
	s.must(0, "aws", "push", "--dir", dir, "--bucket", "b")
	s.must(0, "aws", "push", "--dir", dir, "--bucket", "b")
	s.must(0, "aws", "push", "--dir", dir, "--bucket", "b", "-o", "json")
	s.must(1, "aws", "push", "--dir", dir, "--bucket", "b", "--expect", "0123456789ab")
	programtest.WriteConfig(t, dir, "{\n  \"mcpServers\": {\"files\": {\"urll\": \"https://x.example\", \"timeout\": 5}}\n}")
	s.must(1, "check", dir)
	s.must(1, "check", dir, "-o", "json")
	s.must(1, "aws", "push", "--dir", dir, "--bucket", "b")
	s.objects = nil
	programtest.WriteConfig(t, dir, mine)
	s.must(1, "aws", "push", "--dir", dir, "--bucket", "b")
	s.must(2, "aws", "push", "--dir", dir)
	s.check("check")
	for _, secret := range []string{"FILES_TOKEN\"", "Bearer"} {
		if strings.Contains(s.text.String(), secret) {
			t.Errorf("it shows %s", secret)
		}
	}
}

// copied copies the files below a subfolder into a store, in the layout of a gateway on AWS.
func copied(t *testing.T, dir string, objects object.Store, below string) {
	t.Helper()
	require.OK(t, filepath.WalkDir(filepath.Join(dir, below), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		require.OK(t, err)
		data, err := os.ReadFile(path)
		require.OK(t, err)
		_, err = objects.Put(context.WithoutCancel(t.Context()), filepath.ToSlash(key), data, "")
		return err
	}))
}
