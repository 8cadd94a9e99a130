package request_test

import (
	"context"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/request/requesttest"
)

func TestMem(t *testing.T) {
	requesttest.Run(t, func(*testing.T) request.Store { return new(requesttest.Mem) })
	t.Run("with a record and stops", func(t *testing.T) {
		requesttest.RunStanding(t, func(*testing.T) requesttest.Standing { return standingMem{new(approvaltest.Mem)} })
	})
}

type standingMem struct{ *approvaltest.Mem }

func (m standingMem) PutGranted(ctx context.Context, g request.Granted) (request.Granted, error) {
	return m.Requests.PutGranted(ctx, g)
}
