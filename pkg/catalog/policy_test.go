package catalog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

const (
	first  = `forbid (principal, action, resource == Tool::"fs:read");`
	second = `forbid (principal, action, resource);`
)

// kept returns the stored last good policy, or "none".
func kept(t *testing.T, objects object.Store) string {
	t.Helper()
	o, err := objects.Get(t.Context(), catalog.PolicyFile.LastGood, "")
	if errors.Is(err, object.ErrNotFound) {
		return "none"
	}
	require.OK(t, err)
	return string(o.Data)
}

func TestLastGoodPolicy(t *testing.T) {
	w := serving(t, "read")
	for _, step := range []struct {
		name, policy, want string
		fault              bool
	}{
		{"a broken file, before any good one", "forbid (", "none", true},
		{"a good file", first, first, false},
		{"a broken file", "forbid (", first, true},
		{"another good file", second, second, false},
		{"an empty file, which forbids nothing", "", "", false},
	} {
		w.remove(policy.Key)
		if step.policy != "none" {
			w.Put(policy.Key, step.policy)
		}
		for _, process := range []string{"same process", "new process"} {
			if rep := w.sync(); (rep.PolicyErr != nil) != step.fault {
				t.Errorf("%s, %s: PolicyErr = %v", step.name, process, rep.PolicyErr)
			}
			if got := kept(t, w.Objects); got != step.want {
				t.Errorf("%s, %s: last good policy = %q, want %q",
					step.name, process, got, step.want)
			}
			w.Restart()
		}
	}
	if n := w.puts[catalog.PolicyFile.LastGood]; n != 3 {
		t.Errorf("the last good policy was written %d times, want 3: once for each change", n)
	}
}

// If a person empties the whole bucket or folder, the last good files are gone, too.
func TestLastGoodFilesRemoved(t *testing.T) {
	w := serving(t)
	w.Put(policy.Key, first)
	good := w.sync()
	for _, key := range []string{config.Key, policy.Key, catalog.ConfigFile.LastGood, catalog.PolicyFile.LastGood, catalog.CurrentKey} {
		w.remove(key)
	}
	if rep := w.sync(); !errors.Is(rep.ConfigErr, object.ErrGone) || !errors.Is(rep.PolicyErr, object.ErrGone) {
		t.Errorf("config %v, policy %v; want both gone", rep.ConfigErr, rep.PolicyErr)
	}
	w.Restart()
	if rep := w.sync(); rep.Config != good.Config || kept(t, w.Objects) != first {
		t.Errorf("a new process has config %.8s and policy %q, want the versions that were in use", rep.Config, kept(t, w.Objects))
	}
}

// A sync may have read the file before another sync stored a newer copy. Then the first sync must
// not replace the newer copy by the older file.
func TestLastGoodPolicyRace(t *testing.T) {
	w := serving(t)
	w.Put(policy.Key, first)
	w.sync()
	w.Put(policy.Key, second)
	w.Restart()
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		if key == catalog.PolicyFile.LastGood {
			w.Objects.OnPut = nil
			w.Put(policy.Key, "") // the operator empties the file, and another sync stores the empty copy
			w.Put(catalog.PolicyFile.LastGood, "")
		}
		return false, nil
	}
	w.sync()
	if got := kept(t, w.Objects); got != "" {
		t.Errorf("last good policy = %q, want the newer file, which is empty", got)
	}
}
