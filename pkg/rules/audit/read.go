package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const (
	chunk    = 256 << 10 // bytes of one read
	maxLine  = 64 << 10  // longest line that is read; the program writes only shorter ones
	maxShown = 200       // characters of a line that cannot be read
)

// Read returns the lines that the filter selects, the newest first, at most limit, and the next
// cursor; "" is the end. A line that cannot be read has the kind [KindDamaged]. Read skips the
// files of days outside the filter's times. So a search with time bounds can miss lines that were
// written while the clock was wrong.
func (d *Dir) Read(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error) {
	return d.Folder().Read(ctx, f, after, limit)
}

// Folder returns the folder of d.
func (d *Dir) Folder() Folder { return Folder(d.path) }

// A Folder reads the lines of a folder whose [Dir] belongs to another program.
type Folder string

// Read implements [Reader]; see [Dir.Read].
func (p Folder) Read(ctx context.Context, f Filter, after Cursor, limit int) ([]Line, Cursor, error) {
	path := string(p)
	days, err := daysOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("audit: %w", err)
	}
	upTo, offset, err := after.place()
	if err != nil {
		return nil, "", err
	}
	r := reader{filter: f, needles: f.needles(), limit: limit}
	for _, day := range slices.Backward(days) {
		end := int64(-1)
		switch {
		case upTo != "" && day > upTo, !f.Until.IsZero() && day > dayOf(f.Until):
			continue
		case day == upTo:
			end = offset
		}
		more, err := r.file(ctx, path, day, end)
		if err != nil {
			return nil, "", fmt.Errorf("audit: %w", err)
		}
		if more != "" {
			return r.lines, more, nil
		}
	}
	return r.lines, "", nil
}

// place returns the day and the offset in a cursor.
func (c Cursor) place() (day string, offset int64, err error) {
	if c == "" {
		return "", 0, nil
	}
	day, at, ok := strings.Cut(string(c), ".")
	offset, err = strconv.ParseInt(at, 10, 64)
	if _, no := time.Parse(time.DateOnly, day); !ok || err != nil || no != nil || offset < 0 {
		return "", 0, ErrCursor
	}
	return day, offset, nil
}

// needles returns byte sequences that every selected line contains.
func (f Filter) needles() (out [][]byte) {
	for _, s := range []string{f.Actor, f.Action, f.Server, f.Tool, f.Kind} {
		if quoted, err := rawjson.Encode(s); err == nil && s != "" && s != KindDamaged {
			out = append(out, quoted[1:len(quoted)-1])
		}
	}
	return out
}

// A reader collects lines.
type reader struct {
	filter  Filter
	needles [][]byte
	limit   int
	lines   []Line
	newer   time.Time // time of the line after the current one
}

// file reads the lines of a day before the offset end; -1: all lines. If file stops early, more is
// the position from which to continue.
func (r *reader) file(ctx context.Context, path, day string, end int64) (more Cursor, err error) {
	file, err := os.Open(filepath.Join(path, day+suffix))
	if errors.Is(err, fs.ErrNotExist) { // removed just now
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // the file was only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if f := r.filter; !f.Since.IsZero() && day < dayOf(f.Since) && info.ModTime().Before(f.Since) {
		return "", nil
	}
	if end < 0 || end > info.Size() {
		end = info.Size()
	}
	r.newer = info.ModTime().UTC()
	b := backward{r: file, pos: end}
	for {
		raw, start, long, err := b.next()
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", err
		}
		here, n := Cursor(day+"."+strconv.FormatInt(start, 10)), len(r.lines)
		if r.take(raw, long); len(r.lines) > n {
			r.lines[n].Cursor = here
		}
		if len(r.lines) >= r.limit {
			return here, nil
		}
	}
}

// take adds a line if the filter selects it.
func (r *reader) take(raw []byte, long bool) {
	for _, n := range r.needles {
		if !bytes.Contains(raw, n) {
			return
		}
	}
	if at, ok := timeOf(raw); ok && !long {
		if r.newer = at; at.Before(r.filter.Since) || !r.filter.Until.IsZero() && !at.Before(r.filter.Until) {
			return
		}
	}
	var l Line
	if err := json.Unmarshal(raw, &l); long || err != nil || l.Kind == "" {
		l = Line{V: Version, Time: r.newer, Kind: KindDamaged, Note: text.Clip(string(raw), maxShown)}
	}
	if r.filter.Wants(l) {
		r.lines = append(r.lines, l)
	}
}

// timeOf returns the time of a line without parsing the rest.
func timeOf(raw []byte) (time.Time, bool) {
	const name = `"time":"`
	i := bytes.Index(raw[:min(len(raw), 32)], []byte(name))
	if i < 0 {
		return time.Time{}, false
	}
	value := raw[i+len(name):]
	end := bytes.IndexByte(value, '"')
	if end < 0 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, string(value[:end]))
	return t, err == nil
}

// A backward reads lines from the last to the first, in bounded memory.
type backward struct {
	r   io.ReaderAt
	pos int64  // the bytes before pos were not read yet
	buf []byte // the bytes after pos that were not returned
}

// next returns the previous line, without its line end, and where it starts. If long is true, the
// line is too long, and the result is only a part of it. After the first line it returns [io.EOF].
func (b *backward) next() (line []byte, start int64, long bool, err error) {
	if b.pos == 0 && len(b.buf) == 0 {
		return nil, 0, false, io.EOF
	}
	if len(b.buf) == 0 {
		if err := b.read(); err != nil {
			return nil, 0, false, err
		}
	}
	b.buf = bytes.TrimSuffix(b.buf, []byte("\n"))
	for {
		if i := bytes.LastIndexByte(b.buf, '\n') + 1; i > 0 || b.pos == 0 {
			line, b.buf = b.buf[i:], b.buf[:i]
			return line, b.pos + int64(i), long || len(line) > maxLine, nil
		}
		if len(b.buf) > maxLine {
			long, b.buf = true, nil
		}
		if err := b.read(); err != nil {
			return nil, 0, false, err
		}
	}
}

// read reads the bytes before pos.
func (b *backward) read() error {
	n := min(chunk, b.pos)
	grown := make([]byte, n, n+int64(len(b.buf)))
	if _, err := b.r.ReadAt(grown, b.pos-n); err != nil {
		return err
	}
	b.pos, b.buf = b.pos-n, append(grown, b.buf...)
	return nil
}
