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

// A Copier makes a consistent copy of the store of the approvals. The caller closes the copy after
// reading it.
type Copier interface {
	Copy(ctx context.Context) (c io.ReadCloser, size int64, records int, err error)
}

// Backup returns a copy of the store of the approvals and its size in bytes. The copy has the
// digests of tokens and sessions, so Backup fails if it cannot record who took it.
func (d *Service) Backup(ctx context.Context) (io.ReadCloser, int64, error) {
	if d.o.Copier == nil {
		return nil, 0, Refuse(http.StatusNotImplemented, "the approvals are not in a file but in a database table, and no copy was made: docs/backup.md says how to back it up")
	}
	c, size, records, err := d.o.Copier.Copy(ctx)
	switch {
	case capacity.IsDiskFull(err):
		return nil, 0, Refuse(http.StatusInsufficientStorage, "the disk of the gateway has no space for a copy of the store; no copy was made")
	case err != nil:
		return nil, 0, fmt.Errorf("copy the approvals: %w", err)
	}
	if d.Record(ctx, audit.Line{Action: audit.ActionBackup, Note: text.Count(records, "record")}) != nil {
		_ = c.Close() // nobody gets the copy
		return nil, 0, Refuse(http.StatusServiceUnavailable, "the audit cannot be written, so you get no copy; try again in a minute")
	}
	return c, size, nil
}
