package notifytest_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/notify/notifytest"
)

func TestMem(t *testing.T) {
	notifytest.Run(t, func(_ *testing.T, now func() time.Time) notify.Outbox { return &notifytest.Mem{Now: now} })
}
