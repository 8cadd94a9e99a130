package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// LastGoodPolicyKey is where a sync keeps the last policy that parsed, for the same
// reason as [LastGoodKey]. It is empty since the policy was removed.
const LastGoodPolicyKey = "catalog/last_good_policy.cedar"

// LastGoodPolicy returns the policy that was in use before the one in the store, and
// its version. There is none, and no error, if no sync has seen one: then nothing is
// known of what the operator permits. One that this program cannot read is none either.
func LastGoodPolicy(ctx context.Context, objects object.Store) (p *policy.Policy, version string, err error) {
	o, err := objects.Get(ctx, LastGoodPolicyKey, "")
	switch {
	case errors.Is(err, object.ErrNotFound), err == nil && len(o.Data) == 0:
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("read %s: %w", LastGoodPolicyKey, err)
	}
	if p, err = policy.Parse(o.Data); err != nil {
		return nil, "", nil //nolint:nilerr // one that cannot be read is as none: nothing is known, so everything stays shut
	}
	return p, config.Version(o.Data), nil
}

// keepLastGoodPolicy stores the policy as the last good one, if it parses and is not that
// already. One that does not parse is told of by those who use it.
func keepLastGoodPolicy(ctx context.Context, objects object.Store) error {
	now, err := objects.Get(ctx, policy.Key, "")
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		return fmt.Errorf("read %s: %w", policy.Key, err)
	}
	if _, err := policy.Parse(now.Data); err != nil {
		return nil //nolint:nilerr // it is no good one to keep; those who use it tell of it
	}
	return keep(ctx, objects, LastGoodPolicyKey, now.Data)
}
