package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const good = `{"mcpServers":{"fs":{"url":"https://fs.example.com/mcp"}}}`

func configFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, "config", name)
		require.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.OK(t, os.WriteFile(path, []byte(data), 0o600))
	}
	return dir
}

func do(t *testing.T, objects object.Store, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	args = append([]string{"aws", "push", "--bucket", "b"}, args...)
	err := run(t.Context(), args, &environment{stdout: &out, stderr: &out,
		bucket: func(context.Context, string) (object.Store, error) { return objects, nil }})
	return out.String(), err
}

// A push of a folder without a policy does not remove the stored policy. The output names the
// policy that applies.
func TestPushWithoutPolicy(t *testing.T) {
	const rule = "forbid (principal, action, resource);"
	version := object.Version([]byte(rule))[:12]
	for _, c := range []struct {
		name   string
		stored map[string]string
		want   string
	}{
		{"no policy anywhere", nil, "there is none, so policy permits everything"},
		{"a policy in the bucket", map[string]string{policy.Key: rule}, "is not in the folder: version " + version + " stays in use; to have none, push an empty file"},
		{"gone from the bucket", map[string]string{catalog.PolicyFile.LastGood: rule}, "is neither in the folder nor in the bucket any more: the last good version " + version + " stays in use"},
		{"a broken policy in the bucket", map[string]string{policy.Key: "forbid ("}, "tools stay locked until you push one that can"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := &objecttest.Mem{}
			for key, data := range c.stored {
				if _, err := objects.Put(t.Context(), key, []byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			out, err := do(t, objects, "--dir", configFolder(t, map[string]string{"mcp_config.json": good}))
			if err != nil || !strings.Contains(out, c.want) {
				t.Errorf("push printed %q, %v; want %q", out, err, c.want)
			}
			for key, data := range c.stored {
				if o, err := objects.Get(t.Context(), key, ""); err != nil || string(o.Data) != data {
					t.Errorf("%s holds %q, %v", key, o.Data, err)
				}
			}
		})
	}
}

func TestPushRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		want  string
	}{
		{"a policy with a fault", map[string]string{"mcp_config.json": good, "policy.cedar": "forbid ("}, nil, "policy.cedar"},
		{"no config", nil, nil, "mcp_config.json"},
		{"an argument", map[string]string{"mcp_config.json": good}, []string{"--expect", "0123456789ab", "now"}, "unexpected argument now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := &objecttest.Mem{}
			out, err := do(t, objects, append([]string{"--dir", configFolder(t, c.files)}, c.args...)...)
			if err == nil || !strings.Contains(out+err.Error(), c.want) {
				t.Errorf("%s%v, want %q", out, err, c.want)
			}
			if _, err := objects.Get(t.Context(), config.Key, ""); err == nil {
				t.Error("something was stored")
			}
		})
	}
}

// The later of two simultaneous pushes gets an error and changes nothing.
func TestPushConflict(t *testing.T) {
	objects := &objecttest.Mem{}
	if _, err := objects.Put(t.Context(), config.Key, []byte(`{"mcpServers":{}}`), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, &mover{Store: objects}, "--dir", configFolder(t, map[string]string{"mcp_config.json": good})); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("push = %v", err)
	}
}

// A mover is a store whose config changes immediately after each read.
type mover struct{ object.Store }

func (m *mover) Get(ctx context.Context, key, ifNoneMatch string) (object.Object, error) {
	o, err := m.Store.Get(ctx, key, ifNoneMatch)
	if err == nil {
		_, err = m.Put(ctx, key, append(o.Data, ' '), "")
	}
	return o, err
}
