package catalog_test

import (
	"context"
	"errors"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
	return string(o.Data)
}

func TestLastGoodPolicy(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": ""})
	w.serve(map[string][]string{"fs": {"read"}})
	for _, step := range []struct {
		name, policy, want string
		fault              bool
	}{
		{"none yet", "none", "none", false},
		{"a broken one before any other", "forbid (", "none", true},
		{"a good one", first, first, false},
		{"a broken one", "forbid (", first, true},
		{"the file is gone", "none", first, true},
		{"another good one", second, second, false},
		{"an empty one, which forbids nothing", "", "", false},
		{"the empty one is gone", "none", "", false},
		{"the first one again", first, first, false},
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
				t.Errorf("%s, %s: %q is kept, want %q", step.name, process, got, step.want)
			}
			w.Restart()
		}
	}
	if n := w.puts[catalog.PolicyFile.LastGood]; n != 4 {
		t.Errorf("it was written %d times, want once for each good policy that differs from the one before", n)
	}
}

// If a person empties the whole bucket or folder, the last good files are gone, too.
func TestLastGoodFilesRemoved(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": ""})
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
		t.Errorf("a new process has config %.8s and policy %q, want what was in use", rep.Config, kept(t, w.Objects))
	}
}

// A sync that read the file before another sync must not store the older file again.
func TestLastGoodPolicyRace(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": ""})
	w.Put(policy.Key, first)
	w.sync()
	w.Put(policy.Key, second)
	w.Restart()
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		if key == catalog.PolicyFile.LastGood {
			w.Objects.OnPut = nil
			w.Put(policy.Key, "") // the operator removes it, and another sync sees that
			w.Put(catalog.PolicyFile.LastGood, "")
		}
		return false, nil
	}
	w.sync()
	if got := kept(t, w.Objects); got != "" {
		t.Errorf("%q is kept, want the newer one, which is empty", got)
	}
}

func TestConfigGone(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": ""})
	w.serve(map[string][]string{"fs": {"read"}})
	good := w.sync()
	w.remove(config.Key)
	for _, process := range []string{"same process", "new process"} {
		rep := w.sync()
		if rep.Config != good.Config || !errors.Is(rep.ConfigErr, object.ErrGone) || rep.Tools != 1 {
			t.Errorf("%s: config %.8s with %d tools, %v; want the last good one and that the file is gone", process, rep.Config, rep.Tools, rep.ConfigErr)
		}
		w.Restart()
	}
	w.ConfigureOnly(map[string]string{"fs": ""})
	if rep := w.sync(); rep.ConfigErr != nil {
		t.Errorf("after it came back: %v", rep.ConfigErr)
	}
}
