package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// daysOf returns the days that have files in the folder, in order.
func daysOf(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		day, ok := strings.CutSuffix(e.Name(), suffix)
		if _, err := time.Parse(time.DateOnly, day); ok && err == nil && e.Type().IsRegular() {
			out = append(out, day)
		}
	}
	slices.Sort(out)
	return out, nil
}

// endFile has the hash of the last line if all lines were written before the program ended. While a
// program has the folder open, the file is absent or has 64 zeros.
const endFile = "clean-end"

// mark writes a hash into endFile. It does not truncate the file, so that it works on a full disk.
func (d *Dir) mark(hash string) error {
	file, err := os.OpenFile(filepath.Join(d.path, endFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(hash)
	return errors.Join(err, file.Close())
}

// checkCleanEnd finds out, once, whether the program that wrote the last line ended cleanly, with
// [Dir.Close]. If not, [Dir.notes] writes a note.
func (d *Dir) checkCleanEnd(last end) error {
	if d.prev != "" {
		return nil
	}
	kept, err := os.ReadFile(filepath.Join(d.path, endFile))
	if err == nil {
		err = d.mark(first)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(kept) != last.hash && last.hash != first {
		d.unclean = "The program that wrote the line before this one was not stopped cleanly. Lines after it may be missing"
		if !last.time.IsZero() {
			d.unclean += ". The program wrote that line at " + last.time.UTC().Format(time.RFC3339)
		}
	}
	return nil
}

// finish writes the remaining notes, and records that the files ended cleanly. If it fails, the
// next program notes that lines may be missing.
func (d *Dir) finish() {
	if d.prev == "" || d.lost == 0 && d.unclean == "" && d.prev == first {
		return
	}
	err := error(nil)
	if d.lost > 0 || d.unclean != "" {
		now := d.o.Now()
		if err = d.rotate(now); err == nil {
			err = d.notes(now)
		}
	}
	if err == nil {
		err = d.mark(d.prev)
	}
	if err != nil {
		d.o.Log.LogAttrs(context.Background(), slog.LevelError, "the end of the audit is not noted",
			slog.Int("lost", d.lost), slog.Any("error", err))
	}
}

// resume continues at the end of the newest file. A line there that is not whole stays, and a note
// follows it.
func (d *Dir) resume() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	days, err := daysOf(d.path)
	if err != nil {
		return err
	}
	if len(days) == 0 {
		if err := d.checkCleanEnd(end{hash: first}); err != nil {
			return err
		}
		d.prev, d.isChecked = cmp.Or(d.prev, first), true
		return nil
	}
	day := days[len(days)-1]
	file, err := os.OpenFile(d.name(day), os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	end, err := endOf(file)
	if err == nil && end.is.Size() > 0 {
		if err = d.checkCleanEnd(end); err == nil {
			return d.continueFile(file, day, end)
		}
	} else if err == nil { // the newest file is empty, so the previous line is in an older file
		err = d.continueAfter(day, days[:len(days)-1])
	}
	return errors.Join(err, file.Close())
}

// continueFile continues with the file of a day, after its last line.
func (d *Dir) continueFile(file *os.File, day string, end end) (err error) {
	expected := d.prev == "" || d.prev == end.hash
	d.hold(file, end.is, day)
	if expected {
		d.prev = end.hash
	}
	if !end.closed {
		_, err = file.WriteString("\n")
		d.size++
	}
	switch {
	case err != nil:
	case expected && (!end.closed || !end.whole):
		torn := "The line before this line is incomplete: the program ended while it wrote that line, or somebody changed it. It stays unchanged."
		if d.unclean != "" {
			torn += " Lines after it may be missing."
		}
		if err = d.note(d.o.Now(), torn); err == nil {
			d.unclean = ""
		}
	case !expected:
		err = d.note(d.o.Now(), "The audit does not end here as this program left it: it was changed, or some of it removed, while the program had it open.")
	}
	if err != nil {
		d.file, d.isChecked = nil, false
		return errors.Join(err, file.Close())
	}
	return nil
}

// continueAfter continues with the empty file of a day, after the last line of the days before.
func (d *Dir) continueAfter(day string, before []string) error {
	if d.prev == "" {
		last, err := d.before(before)
		if err == nil {
			err = d.checkCleanEnd(last)
		}
		if err != nil {
			return err
		}
		d.prev = last.hash
	}
	d.day, d.isChecked = day, true
	return nil
}

// before returns the end of the newest of these days that has a line.
func (d *Dir) before(days []string) (end, error) {
	for _, day := range slices.Backward(days) {
		file, err := os.Open(d.name(day))
		if err != nil {
			return end{}, err
		}
		last, err := endOf(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return end{}, err
		}
		if last.is.Size() > 0 {
			return last, nil
		}
	}
	return end{hash: first}, nil
}

// An end describes the end of a file.
type end struct {
	is     fs.FileInfo // of the file
	hash   string      // of its last line
	time   time.Time   // of the line; zero: it cannot be read
	closed bool        // the line has a line end
	whole  bool        // the line can be read
}

func endOf(file *os.File) (e end, err error) {
	if e.is, err = file.Stat(); err != nil || e.is.Size() == 0 {
		return e, err
	}
	size := e.is.Size()
	b := backward{r: file, pos: size}
	line, start, long, err := b.next()
	if err != nil {
		return end{}, err
	}
	var last [1]byte
	if _, err = file.ReadAt(last[:], size-1); err != nil {
		return end{}, err
	}
	e.closed = last[0] == '\n'
	length := size - start
	if e.closed {
		length--
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, io.NewSectionReader(file, start, length)); err != nil {
		return end{}, err
	}
	e.hash = hex.EncodeToString(sum.Sum(nil))
	var l Line
	if e.whole = !long && json.Unmarshal(line, &l) == nil && l.Kind != ""; e.whole {
		e.time = l.Time
	}
	return e, nil
}
