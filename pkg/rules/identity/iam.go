package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An IAM takes the word of API Gateway for who signed a request with AWS
// credentials. Such an agent's id is its ARN.
type IAM struct {
	// Signer returns the ARN from the event's request context, "" if the route asks
	// for no signature. It must read nothing that the sender of a request can set.
	Signer func(context.Context) string

	Servers []string    // that a signed caller may see
	Tiers   []tool.Tier // that it may call
	Admins  []string    // ARNs of who may use the admin API; an * stands for any text
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
