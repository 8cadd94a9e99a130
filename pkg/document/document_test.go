package document_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/document"
	"github.com/portcullis-mcp/portcullis/pkg/document/documenttest"
)

func TestStore(t *testing.T) {
	documenttest.Run(t, func(_ *testing.T, now func() time.Time) document.Store {
		return &documenttest.Store{Now: now}
	})
}
