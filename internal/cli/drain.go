package cli

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

// cutTime is how long canceled requests may take to answer with an error.
const cutTime = time.Second

// stop waits until active requests have ended, for the time drain at most. It then cancels the
// requests that are left, so that they answer with an error, and closes their connections a second
// later. Until then the server accepts connections, because the gateway refuses new requests with a
// reason, and answers checks of its health.
func stop(
	ctx context.Context, server *http.Server, gate *capacity.Gate, drain time.Duration,
	cancel context.CancelFunc, log *slog.Logger,
) {
	log.LogAttrs(ctx, slog.LevelInfo, "gateway is draining", slog.String("at_most", drain.String()))
	draining, done := context.WithTimeout(ctx, drain)
	defer done()
	gate.Drain(draining)
	if server.Shutdown(draining) == nil { // waits for all other requests
		return
	}
	after := slog.String("after", drain.String())
	log.LogAttrs(ctx, slog.LevelWarn, "requests are cut short", after)
	cancel()
	cutting, done := context.WithTimeout(ctx, cutTime)
	defer done()
	if server.Shutdown(cutting) != nil {
		_ = server.Close() // only connections remain, so the error does not matter
	}
}
