package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A Part is a part of the time of a request.
type Part int

// The parts. That of the server that is called is the metric UpstreamDuration.
const (
	PartStore  Part = iota // waiting for stores
	PartSearch             // ranking
	parts
)

// partNames are the members of a line, without _ms.
var partNames = [parts]string{"store", "search"}

// isTimed reports whether ctx is a request's whose line says where its time went.
func isTimed(ctx context.Context) bool { return lineOf(ctx) != nil }

// addTime adds to a part of the time of the request that ctx is of.
func addTime(ctx context.Context, p Part, took time.Duration) {
	if l := lineOf(ctx); l != nil {
		l.mu.Lock()
		l.spent[p] += took
		l.mu.Unlock()
	}
}

// spentAttrs returns the parts that took any time. l is held.
func (l *metricLine) spentAttrs(out []slog.Attr) []slog.Attr {
	for p, took := range l.spent {
		if took > 0 {
			out = append(out, text.Ms(partNames[p], took))
		}
	}
	return out
}
