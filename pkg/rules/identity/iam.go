package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An IAM accepts requests that their sender signed with AWS credentials. It trusts API Gateway to
// verify the signature and to name the signer. The signer's ARN is the agent's id.
type IAM struct {
	// Signer returns the ARN from the event's request context, "" if the route requires no
	// signature. It must read nothing that the sender of a request can set.
	Signer func(context.Context) string

	Servers []string    // servers that a signer may see
	Tiers   []tool.Tier // tiers that a signer may call
	Admins  []string    // ARNs that may use the admin API; an * matches any text
}

func (i *IAM) agent(ctx context.Context) (Agent, bool) {
	arn := i.Signer(ctx)
	if !strings.HasPrefix(arn, arnPrefix) || !validID(arn) {
		return Agent{}, false
	}
	a := Agent{ID: arn, Way: WayIAM, Servers: i.Servers, Tiers: i.Tiers, Claims: map[string]any{claimARN: arn}}
	if slices.ContainsFunc(i.Admins, func(pattern string) bool { return tool.MatchGlob(pattern, arn) }) {
		a.Rights = Everything()
	}
	return a, true
}
