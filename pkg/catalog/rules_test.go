package catalog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// lastGood is the version of the policy that is kept, "" if none is.
func lastGood(t *testing.T, objects object.Store) string {
	t.Helper()
	p, version, err := catalog.LastGoodPolicy(t.Context(), objects)
	if err != nil || (p != nil) != (version != "") {
		t.Fatalf("policy %v, version %q, %v", p != nil, version, err)
	}
	return version
}

func TestASyncKeepsThePolicyThatParsedLast(t *testing.T) {
	const first, second = `forbid (principal, action, resource == Tool::"fs:read");`, `forbid (principal, action, resource);`
	w := newWorld(t)
	w.configure(map[string]string{"fs": ""})
	w.servers.lists = map[string][]string{"fs": {"read"}}
	for _, step := range []struct{ name, policy, want string }{
		{"none yet", "", ""},
		{"a broken one before any other", "forbid (", ""},
		{"a good one", first, config.Version([]byte(first))},
		{"a broken one", "forbid (", config.Version([]byte(first))},
		{"another good one", second, config.Version([]byte(second))},
		{"an empty one, which forbids nothing", " ", config.Version([]byte(" "))},
	} {
		if step.policy != "" {
			w.put(policy.Key, step.policy)
		}
		for range 2 {
			w.sync()
		}
		if got := lastGood(t, w.objects); got != step.want {
			t.Errorf("%s: %q is kept, want %q", step.name, got, step.want)
		}
	}
	if n := w.puts[catalog.LastGoodPolicyKey]; n != 3 {
		t.Errorf("it was written %d times for three policies", n)
	}
}

func TestARemovedPolicyIsNotKept(t *testing.T) {
	w := newWorld(t)
	w.configure(map[string]string{"fs": ""})
	w.put(catalog.LastGoodPolicyKey, `forbid (principal, action, resource);`)
	w.sync() // and there is no policy in the store
	if got := lastGood(t, w.objects); got != "" {
		t.Errorf("%q is kept after the file was removed", got)
	}
}

func TestAKeptPolicyThatCannotBeReadIsNotTakenForNone(t *testing.T) {
	down := errors.New("down")
	objects := &objecttest.Mem{OnGet: func(context.Context, string) error { return down }}
	if _, _, err := catalog.LastGoodPolicy(t.Context(), objects); !errors.Is(err, down) {
		t.Errorf("error %v, want %v", err, down)
	}
	objects = &objecttest.Mem{}
	if _, err := objects.Put(t.Context(), catalog.LastGoodPolicyKey, []byte("forbid ("), ""); err != nil {
		t.Fatal(err)
	}
	if got := lastGood(t, objects); got != "" {
		t.Errorf("a kept policy that does not parse is %q", got)
	}
}
