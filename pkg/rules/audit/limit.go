package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// ErrLimit says that the files have as many bytes as their [Limit] allows.
var ErrLimit = errors.New("the audit has reached its largest size, audit.max_bytes")

// A Limit bounds the bytes of all files of a [Dir]. The zero Limit allows any size.
type Limit struct {
	Bytes  int64 // 0: no limit
	Refuse bool  // at the limit [Dir.Ready] fails and nothing is removed; otherwise the oldest day is removed
}

// reserve is the space below the limit that only the lines of calls that have started may use.
func (l Limit) reserve() int64 { return min(1<<20, l.Bytes/8) }

// Size returns how many bytes the files have, and how many they may have; 0: no limit.
func (d *Dir) Size() (bytes, limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total(), d.o.Limit().Bytes
}

func (d *Dir) total() int64 { return d.size + d.older }

// isNear reports whether the reserve is in use. If so it measures the folder again, at most once a
// second, because an operator may have moved files away.
func (d *Dir) isNear(now time.Time, l Limit) bool {
	near := func() bool { return l.Bytes > 0 && d.total()+l.reserve() > l.Bytes }
	if near() {
		d.sweepDue(now)
	}
	if near() && (now.Sub(d.measured) >= retryEvery || now.Before(d.measured)) {
		d.measure(now)
	}
	if !near() {
		d.full = nil
		return false
	}
	return true
}

// fit makes space for a line. If it returns [ErrLimit], nothing more is written. With the zero
// Limit every line fits.
func (d *Dir) fit(now time.Time) error {
	l := d.o.Limit()
	if !d.isNear(now, l) {
		return nil
	}
	for !l.Refuse && d.total() > l.Bytes && d.dropOldest(now, l) {
	}
	if d.total() <= l.Bytes {
		return nil
	}
	return d.stop(now, "until there is room below audit.max_bytes, or a new day begins")
}

// fitCalls returns [ErrLimit] if no more calls may start; nil: there is space for their lines.
func (d *Dir) fitCalls(now time.Time) error {
	if l := d.o.Limit(); !l.Refuse || !d.isNear(now, l) {
		return nil
	}
	return d.stop(now, "until there is room below audit.max_bytes; calls are refused")
}

// stop notes in the file, only once, that later lines may be missing.
func (d *Dir) stop(now time.Time, until string) error {
	if d.full == nil {
		d.full = ErrLimit
		return errors.Join(ErrLimit, d.note(now,
			"The audit has reached audit.max_bytes. Lines after this one may be missing "+until+"."))
	}
	return d.full
}

// measure adds up the sizes of the files of other days.
func (d *Dir) measure(now time.Time) {
	d.measured = now
	days, err := daysOf(d.path)
	sum := int64(0)
	for _, day := range days {
		if info, failed := os.Stat(d.name(day)); day != d.day && !errors.Is(failed, fs.ErrNotExist) {
			if err = errors.Join(err, failed); failed == nil {
				sum += info.Size()
			}
		}
	}
	if err != nil {
		d.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "the files of the audit cannot be measured", slog.Any("error", err))
		return
	}
	d.older = sum
}

// dropOldest removes the file of the oldest day, but never of the newest, and notes it. It reports
// whether it removed a file.
func (d *Dir) dropOldest(now time.Time, l Limit) bool {
	days, err := daysOf(d.path)
	if err == nil && (len(days) == 0 || days[0] >= d.day) {
		return false
	}
	var size int64
	var last string
	if err == nil {
		size, last, err = d.remove(days[0])
	}
	if err != nil {
		d.o.Log.LogAttrs(context.Background(), slog.LevelError, "the oldest day of the audit cannot be removed", slog.Any("error", err))
		return false
	}
	d.older -= size
	d.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "the oldest day of the audit was removed", slog.String("day", days[0]), slog.Int64("bytes", size))
	const removed = "The file of %s was removed, with %d bytes: the audit had reached audit.max_bytes, %d. " +
		"The hash of its last line is %s."
	return d.note(now, fmt.Sprintf(removed, days[0], size, l.Bytes, last)) == nil
}

// remove removes the file of a day, and returns its size and the hash of its last line.
func (d *Dir) remove(day string) (size int64, last string, err error) {
	file, err := os.Open(d.name(day))
	if err != nil {
		return 0, "", err
	}
	end, err := endOf(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, "", err
	}
	return end.is.Size(), end.hash, os.Remove(d.name(day))
}
