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

// DirOptions are the options of a [Dir]. The zero value of each field means its default.
type DirOptions struct {
	Days  func() int       // how many days a file stays, 0: forever; nil: 30
	Limit func() Limit     // of the bytes of all files; nil: none
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: no log

	ReadOnly bool // only reads the files: makes and removes nothing, and each Write fails
}

const (
	suffix     = ".jsonl"
	usualDays  = 30
	retryEvery = time.Second // how often a Dir retries after a lost line
	logEvery   = time.Minute // how often a lasting fault is logged
	syncAfter  = time.Second // a line is on the disk this long after its write
)

// first is the value of prev in the very first line, which has no line before it.
var first = strings.Repeat("0", 2*sha256.Size)

var errClosed = errors.New("the audit is closed")

// A Dir keeps lines in a folder: a file for each day in UTC. Each line contains the hash of the
// line before, across files. A person who can write to the folder can change lines and recompute
// all hashes. This is detectable only if somebody has kept a hash elsewhere.
//
// A line is in the file when Write returns, and on the disk a second later. Each line is one write
// system call, so a killed program leaves whole lines. After a power failure the last line can be
// incomplete. It stays in the file, and the next line reports it.
//
// One process writes to a folder: the process that holds the lock of the approvals in the same
// data folder.
type Dir struct {
	path string
	o    DirOptions

	mu     sync.Mutex
	closed bool
	file   *os.File    // nil: no file is open
	info   fs.FileInfo // of the open file; another file may have its name now
	day    string      // of the file, or of the newest file
	size   int64
	prev   string // hash of the last line
	room   int64  // size up to which the file system has allocated space
	noRoom bool   // the file system cannot allocate
	scarce error  // why the file system can no longer allocate
	dirty  bool   // the file has unsynced data
	swept  string // day of the last removal of old files

	older    int64     // bytes of the files of other days
	measured time.Time // when older was computed
	full     error     // the files are at their limit, and the newest file notes it; nil: below it

	unclean string // note about how the previous program ended; "": nothing

	fault     error     // why the last line was not written properly; nil: the line was written
	failures  int64     // writes of lines that failed since the start
	lost      int       // lines that could not be written
	since     time.Time // time of the first lost line
	tried     time.Time // time of the last retry
	logged    time.Time // time of the last log message
	isChecked bool      // the end of the files was checked
}

var (
	_ Sink    = (*Dir)(nil)
	_ Readier = (*Dir)(nil)
)

// OpenDir returns the Dir at path. It makes the folder if needed, and writes a line about each
// file that is not whole. On a full disk it returns a Dir that cannot write yet; [Dir.Fault]
// returns the reason.
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

// Write implements [Sink]. A Dir reports lost lines once a minute in the log, and in [Dir.Fault]
// and [Dir.Ready]. Before the next line that it writes, it writes a note with the number of lost
// lines.
func (d *Dir) Write(ctx context.Context, l Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writeLine(ctx, l)
}

// WriteAll implements [batcher] with one system call. If it fails, it writes the lines one by one,
// as many as possible.
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

// writeLine writes a line, or notes its loss.
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
	d.failures++
	if d.lost++; d.lost == 1 {
		d.since = now
	}
	if now.Sub(d.logged) >= logEvery {
		d.logged = now
		d.o.Log.LogAttrs(ctx, slog.LevelError, "a line of the audit is lost", slog.Int("lost", d.lost), slog.Time("since", d.since), slog.Any("error", err))
	}
	return err
}

// Failures returns how many writes of a line failed.
func (d *Dir) Failures() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures
}

// write writes lines, all or none. Before them it writes any notes about the file.
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

// notes writes a note if lines were lost, or may have been.
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
	d.lost, d.fault, d.logged = 0, nil, time.Time{}
	return nil
}

// note writes a line about the file itself.
func (d *Dir) note(now time.Time, text string) error {
	return d.add([]Line{{V: Version, Time: now.UTC(), Kind: KindNote, Note: text}})
}

// add writes lines to the open file in one system call. If only a part is written, it removes that
// part.
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

// sync writes the file's data to the disk. Writers do not wait for it.
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

// rotate makes sure that the file of the day is open and still has its name. If the clock was set
// back, it keeps the newer file. If it cannot open the file of a new day, it continues with the
// previous one.
func (d *Dir) rotate(now time.Time) error {
	if d.file != nil && !d.inPlace() {
		d.leave()
	}
	if !d.isChecked {
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

// hold continues with an open file; info describes it.
func (d *Dir) hold(file *os.File, info fs.FileInfo, day string) {
	d.file, d.info, d.day, d.size, d.room, d.isChecked = file, info, day, info.Size(), 0, true
	d.measure(d.o.Now())
}

// inPlace reports whether the open file still has its name, and the size that this program left.
func (d *Dir) inPlace() bool {
	at, err := os.Stat(d.file.Name())
	return err == nil && os.SameFile(at, d.info) && at.Size() == d.size
}

// leave closes the file. The next write checks the folder first.
func (d *Dir) leave() {
	if d.file != nil {
		_ = d.close() // keep what is written
		d.isChecked = false
	}
}

// close releases the allocated space of the file, unless another program has written to it.
func (d *Dir) close() error {
	file := d.file
	d.file = nil
	info, err := file.Stat()
	if err == nil && info.Size() == d.size {
		err = file.Truncate(d.size)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// Ready implements [Readier]. It returns nil if the file exists and has space for the lines of some
// hundred calls. After a lost line it retries once a second.
func (d *Dir) Ready(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	switch {
	case d.closed:
		return errClosed
	case d.fault != nil && now.Sub(d.tried) >= 0 && now.Sub(d.tried) < retryEvery:
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

// Fault returns the reason why lines cannot be written now or soon; nil: there is none.
func (d *Dir) Fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full != nil {
		d.isNear(d.o.Now(), d.o.Limit())
	}
	return cmp.Or(d.full, d.fault, d.scarce)
}

// sweepDue removes old files once a day.
func (d *Dir) sweepDue(now time.Time) {
	if days := d.o.Days(); days > 0 && d.swept != d.day {
		d.swept = d.day
		d.sweep(now.AddDate(0, 0, -days))
	}
}

// sweep removes the files from before a day, but never the newest file.
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

// Close writes everything to the disk, and records that the files ended cleanly. Later writes
// fail.
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
