package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// DirOptions are the knobs of a [Dir]. The zero value of each field stands for its default.
type DirOptions struct {
	Days  func() int       // how many days files are kept, 0: all; nil: 30
	Limit func() Limit     // of the bytes of all files; nil: none
	Now   func() time.Time // time.Now
	Log   *slog.Logger     // none

	ReadOnly bool // the files are read alone: nothing is made or removed, and each Write fails
}

const (
	suffix    = ".jsonl"
	usualDays = 30
	mendEvery = time.Second // how often it is tried to go on after a line was lost
	sayEvery  = time.Minute // how often the log is told meanwhile
	syncAfter = time.Second // after a line, it is on the disk
)

// first is what the first line of all says of the line before it.
var first = strings.Repeat("0", 2*sha256.Size)

var errClosed = errors.New("the audit is closed")

// A Dir keeps lines in a folder: a file for each day in UTC, of which each line names the hash of the
// line before, over the ends of days too. Who has the folder alone can change it and make all
// hashes anew; who kept one hash elsewhere sees it.
//
// A line is in the file when Write returns, and on the disk a second later. It is one write of the
// system, so that a program that is killed leaves whole lines; after a loss of power the last one can be
// torn, and stays as it is: the next line says so.
//
// One process writes to a folder: the lock of the approvals beside it is held by whoever has opened one.
type Dir struct {
	path string
	o    DirOptions

	mu     sync.Mutex
	closed bool
	file   *os.File    // nil: none is open
	is     fs.FileInfo // of the file, as it was opened: which one it is, whatever is at its name by now
	day    string      // of the file, or of the newest that there is
	size   int64
	prev   string // hash of the last line
	room   int64  // size up to which the file system has set room aside
	noRoom bool   // it cannot do that
	scarce error  // why it does not any more
	dirty  bool   // something is to be synced
	swept  string // day on which old files were removed last

	older    int64     // bytes of the files of other days
	measured time.Time // when those were added up
	full     error     // the files are at their limit, and the newest says so; nil: they are not

	unclean string // what is to be said of how the program before this one ended; "": nothing

	fault  error     // why the last line could not be written as it should; nil: it was
	lost   int       // lines that could not be written at all
	since  time.Time // of the first of them
	tried  time.Time // when it was last tried to go on
	told   time.Time // when the log was last told
	mended bool      // how the files end is known
}

var (
	_ Sink    = (*Dir)(nil)
	_ Readier = (*Dir)(nil)
)

// OpenDir returns the Dir at path, which is made if need be. What it finds that is not whole it closes by
// a line that says so. On a full disk it returns a Dir that cannot write yet, which [Dir.Fault] says.
func OpenDir(path string, o *DirOptions) (*Dir, error) {
	d := &Dir{path: path}
	if o != nil {
		d.o = *o
	}
	if d.o.Days == nil {
		d.o.Days = func() int { return usualDays }
	}
	if d.o.Limit == nil {
		d.o.Limit = func() Limit { return Limit{} }
	}
	if d.o.Now == nil {
		d.o.Now = time.Now
	}
	d.o.Log = cmp.Or(d.o.Log, slog.New(slog.DiscardHandler))
	if d.o.ReadOnly {
		d.closed = true
		if _, err := os.Stat(path); err == nil {
			d.measure(d.o.Now())
		}
		return d, nil
	}
	err := d.resume()
	if err == nil && d.unclean != "" {
		now := d.o.Now()
		if err = d.rotate(now); err == nil {
			err = d.notes(now)
		}
	}
	if capacity.IsDiskFull(err) || capacity.IsDescriptors(err) {
		d.fault, err = err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return d, nil
}

// name returns the path of a day's file.
func (d *Dir) name(day string) string { return filepath.Join(d.path, day+suffix) }

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Write implements [Sink]. A line that is lost is told to the log, once a minute, and to whoever asks
// [Dir.Fault] or [Dir.Ready]; the next one that is written has one before it that says how many were.
func (d *Dir) Write(ctx context.Context, l Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writeLine(ctx, l)
}

// WriteAll implements [batcher], with one write of the system. Lines that cannot be written so are written one
// by one, as far as they can be.
func (d *Dir) WriteAll(ctx context.Context, lines []Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed && d.write(d.o.Now(), lines) == nil {
		return nil
	}
	faults := make([]error, len(lines))
	for i, l := range lines {
		faults[i] = d.writeLine(ctx, l)
	}
	return errors.Join(faults...)
}

// writeLine writes a line, or notes that it is lost.
func (d *Dir) writeLine(ctx context.Context, l Line) error {
	if d.closed {
		return errors.Join(errClosed, d.mark(first)) // the next start says that a line may be missing
	}
	now := d.o.Now()
	err := d.write(now, []Line{l})
	if err == nil {
		return nil
	}
	d.fault = err
	if d.lost++; d.lost == 1 {
		d.since = now
	}
	if now.Sub(d.told) >= sayEvery {
		d.told = now
		d.o.Log.LogAttrs(ctx, slog.LevelError, "a line of the audit is lost", slog.Int("lost", d.lost), slog.Time("since", d.since), slog.Any("error", err))
	}
	return err
}

// write writes lines, all or none, and before them what there is to say of the file itself.
func (d *Dir) write(now time.Time, lines []Line) error {
	turned := d.rotate(now)
	if turned != nil && d.file == nil {
		return turned
	}
	if err := d.fit(now); err != nil {
		return err
	}
	if err := d.notes(now); err != nil {
		return err
	}
	if err := d.add(lines); err != nil {
		return err
	}
	d.fault = turned
	d.sweepDue(now)
	return nil
}

// notes writes that lines were lost, or may have been, if so.
func (d *Dir) notes(now time.Time) error {
	if d.unclean != "" {
		if err := d.note(now, d.unclean+"."); err != nil {
			return err
		}
		d.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "lines of the audit may be missing", slog.String("note", d.unclean))
		d.unclean = ""
	}
	if d.lost == 0 {
		return nil
	}
	err := d.note(now, fmt.Sprintf("%s could not be written before this one, since %s.", text.Count(d.lost, "line"), d.since.UTC().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	d.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "the audit is written again", slog.Int("lost", d.lost))
	d.lost, d.fault, d.told = 0, nil, time.Time{}
	return nil
}

// note writes a line about the file itself.
func (d *Dir) note(now time.Time, text string) error {
	return d.add([]Line{{V: Version, Time: now.UTC(), Kind: KindNote, Note: text}})
}

// add writes lines to the open file, at once. What was written of some that did not all get whole is taken
// away.
func (d *Dir) add(lines []Line) error {
	var all []byte
	prev := d.prev
	for _, l := range lines {
		l.Prev = prev
		raw, err := l.encode()
		if err != nil {
			return err
		}
		all = append(append(all, raw...), '\n')
		prev = hashOf(raw)
	}
	d.preallocate()
	if _, err := d.file.Write(all); err != nil {
		if d.file.Truncate(d.size) != nil {
			d.leave()
		}
		return err
	}
	d.size += int64(len(all))
	d.prev = prev
	if !d.dirty {
		d.dirty = true
		time.AfterFunc(syncAfter, d.sync)
	}
	return nil
}

// sync brings what was written to the disk. Writers do not wait for it.
func (d *Dir) sync() {
	d.mu.Lock()
	file := d.file
	d.dirty = false
	d.mu.Unlock()
	if file == nil {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, fs.ErrClosed) {
		d.o.Log.LogAttrs(context.Background(), slog.LevelError, "the audit cannot be brought to the disk", slog.Any("error", err))
	}
}

// rotate has the file of the day open, and in its place. A clock that was set back does not open an
// older one. If that of a new day cannot be opened, the one before goes on.
func (d *Dir) rotate(now time.Time) error {
	if d.file != nil && !d.inPlace() {
		d.leave()
	}
	if !d.mended {
		if err := d.resume(); err != nil {
			return err
		}
	}
	day := max(dayOf(now), d.day)
	if d.file != nil && day == d.day {
		return nil
	}
	file, err := os.OpenFile(d.name(day), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	d.leave()
	d.hold(file, info, day)
	return nil
}

// hold goes on with an open file, which info is of.
func (d *Dir) hold(file *os.File, info fs.FileInfo, day string) {
	d.file, d.is, d.day, d.size, d.room, d.mended = file, info, day, info.Size(), 0, true
	d.measure(d.o.Now())
}

// inPlace reports whether the open file is the one of its name still, as this program left it.
func (d *Dir) inPlace() bool {
	at, err := os.Stat(d.file.Name())
	return err == nil && os.SameFile(at, d.is) && at.Size() == d.size
}

// leave closes the file. What follows looks at the folder first.
func (d *Dir) leave() {
	if d.file != nil {
		_ = d.close() // what it has, it has
		d.mended = false
	}
}

// close gives back the room that was set aside in the file, unless somebody else has written to it.
func (d *Dir) close() error {
	file := d.file
	d.file = nil
	info, err := file.Stat()
	if err == nil && info.Size() == d.size {
		err = file.Truncate(d.size)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// Ready implements [Readier]: the file is there, and has room for the lines of some hundred calls. After a
// lost line it tries to go on, once a second.
func (d *Dir) Ready(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	switch {
	case d.closed:
		return errClosed
	case d.fault != nil && now.Sub(d.tried) >= 0 && now.Sub(d.tried) < mendEvery:
		return d.fault
	}
	d.tried, d.fault = now, nil
	err := d.rotate(now)
	if err == nil {
		err = d.fitCalls(now)
	}
	if err == nil {
		err = d.notes(now)
	}
	if err == nil {
		d.preallocate()
		err = d.scarce
	}
	d.fault = err
	return err
}

// Fault returns why lines cannot be written, or will not be for long; nil: they can.
func (d *Dir) Fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full != nil {
		d.isNear(d.o.Now(), d.o.Limit())
	}
	return cmp.Or(d.full, d.fault, d.scarce)
}

// sweepDue removes old files once for each day that begins.
func (d *Dir) sweepDue(now time.Time) {
	if days := d.o.Days(); days > 0 && d.swept != d.day {
		d.swept = d.day
		d.sweep(now.AddDate(0, 0, -days))
	}
}

// sweep removes the files that are older than they are kept; never the newest.
func (d *Dir) sweep(before time.Time) {
	oldest := dayOf(before)
	days, err := daysOf(d.path)
	for _, day := range days {
		if day >= oldest || day >= d.day {
			continue
		}
		if err = errors.Join(err, os.Remove(d.name(day))); err == nil {
			d.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "a day of the audit is over its time", slog.String("day", day))
		}
	}
	if err != nil {
		d.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "old files of the audit cannot be removed", slog.Any("error", err))
	}
	d.measure(d.o.Now())
}

// Close brings everything to the disk, and keeps that the files end as they should. What is written
// later is refused.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.finish()
	if d.file == nil {
		return nil
	}
	return d.close()
}
