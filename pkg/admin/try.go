package admin

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

func (a *api) try(ctx context.Context, in *decide.Wish) (decide.Trial, error) {
	return a.desk.Try(ctx, *in)
}
