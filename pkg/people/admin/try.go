package admin

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

func (a *api) try(ctx context.Context, in *decide.SearchQuery) (decide.Explanation, error) {
	return a.service.ExplainSearch(ctx, *in)
}
