package text

import (
	"log/slog"
	"time"
)

// Ms returns a duration as a member of a log line, in milliseconds. Its name says the unit.
func Ms(name string, d time.Duration) slog.Attr {
	return slog.Float64(name+"_ms", float64(d.Microseconds())/1000)
}
