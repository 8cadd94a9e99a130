package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// daysOf returns the days of which a folder has files, in order.
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

// resume goes on where the newest file ends. What is not whole there stays, and is followed by a line
// that says so.
func (d *Dir) resume() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	days, err := daysOf(d.path)
	if err != nil {
		return err
	}
	if len(days) == 0 {
		d.prev, d.mended = cmp.Or(d.prev, first), true
		return nil
	}
	day := days[len(days)-1]
	file, err := os.OpenFile(d.name(day), os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	end, err := endOf(file)
	if err == nil && end.is.Size() > 0 {
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
			err = d.note(d.o.Now(), "The line before this one is not whole: the program ended while it wrote it, or it was changed. It stays as it was found.")
		case !expected:
			err = d.note(d.o.Now(), "The audit does not end here as this program left it: it was changed, or some of it removed, while the program had it open.")
		}
		if err != nil {
			d.file, d.mended = nil, false
			return errors.Join(err, file.Close())
		}
		return nil
	}
	if err == nil { // it is empty: the line before stands in an older file
		d.day, d.mended = day, true
		if d.prev == "" {
			d.prev, err = d.before(days[:len(days)-1])
		}
	}
	return errors.Join(err, file.Close())
}

// before returns the hash of the last line of the newest of some days that has one.
func (d *Dir) before(days []string) (string, error) {
	for _, day := range slices.Backward(days) {
		file, err := os.Open(d.name(day))
		if err != nil {
			return "", err
		}
		end, err := endOf(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", err
		}
		if end.is.Size() > 0 {
			return end.hash, nil
		}
	}
	return first, nil
}

// An end is how a file ends.
type end struct {
	is     fs.FileInfo // of the file
	hash   string      // of its last line
	closed bool        // the line has an end
	whole  bool        // and can be read
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
	e.whole = !long && json.Unmarshal(line, &l) == nil && l.Kind != ""
	return e, nil
}
