package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// registerBackup adds the operation that returns a copy of the approvals.
func (a *api) registerBackup(h huma.API) {
	const what = "a bbolt database for the command portcullis restore; it contains " +
		"the digests of tokens and sessions"
	op := post("backup-approvals", "/admin/approvals/backup", "Get a consistent, verified copy of the store of the approvals; the audit records who got the copy")
	op.Responses = map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{"application/octet-stream": {}}}}
	op.Errors = []int{http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusInsufficientStorage}
	huma.Register(h, op, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		c, size, err := a.service.Backup(ctx)
		if err != nil {
			return nil, a.fail(ctx, op.OperationID, err)
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			defer c.Close()
			hc.SetHeader("Content-Type", "application/octet-stream")
			hc.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="approvals-%s.db"`, a.service.Now().UTC().Format("20060102T150405Z")))
			hc.SetHeader("Content-Length", strconv.FormatInt(size, 10))
			_, _ = io.Copy(hc.BodyWriter(), c) // if this fails, the body is shorter than Content-Length, so the client knows that the copy is incomplete
		}}, nil
	})
}
