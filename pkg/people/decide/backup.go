package decide

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A Copier copies the store of the approvals, as it is at one moment. Who has read the copy closes it.
type Copier interface {
	Copy(ctx context.Context) (c io.ReadCloser, size int64, records int, err error)
}

// Backup returns a copy of the store of the approvals, and how many bytes it has. Whoever has it has the
// digests of tokens and of sessions: who took it is recorded, and else nobody gets one.
func (d *Service) Backup(ctx context.Context) (io.ReadCloser, int64, error) {
	if d.o.Copier == nil {
		return nil, 0, Refuse(http.StatusNotImplemented, "the approvals are in no file of this program but in a table: docs/backup.md says how that is kept")
	}
	c, size, records, err := d.o.Copier.Copy(ctx)
	switch {
	case capacity.IsDiskFull(err):
		return nil, 0, Refuse(http.StatusInsufficientStorage, "there is no room for a copy beside the store where the gateway runs; none was made")
	case err != nil:
		return nil, 0, fmt.Errorf("copy the approvals: %w", err)
	}
	if d.Record(ctx, audit.Line{Action: audit.ActionBackup, Note: text.Count(records, "record")}) != nil {
		_ = c.Close() // nobody gets it
		return nil, 0, Refuse(http.StatusServiceUnavailable, "the audit cannot be written, so no copy was handed out; try again in a minute")
	}
	return c, size, nil
}
