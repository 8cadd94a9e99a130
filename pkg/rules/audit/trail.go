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

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
)

// maxFaults is how many faults a [Trail] lists.
const maxFaults = 20

// A Trail has some events of a folder, the oldest first, and the faults of its files.
type Trail struct {
	Events []TrailEvent
	Faults []string // the first 20 places where a line is damaged, missing or foreign
	Count  int      // how many such places exist
}

// A TrailEvent is an event, and what the hashes in the lines around it say about it.
type TrailEvent struct {
	Line

	// Stretch numbers the unbroken parts of the files: each line of a stretch contains the hash of
	// the line before it.
	Stretch int

	// Sure says that the next line contains the hash of this line, or that this line is the last.
	Sure bool
}

// Trail reads every file of the folder, and returns the events that want selects. A missing folder
// has no events. Sure is no proof, because a person who can write to the folder can also compute a
// whole chain of hashes. If nobody has done so, Sure detects lines that were damaged, inserted,
// removed or cut off within a file.
func (p Folder) Trail(ctx context.Context, want func(Line) bool) (Trail, error) {
	days, err := daysOf(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return Trail{}, nil
	}
	if err != nil {
		return Trail{}, fmt.Errorf("audit: %w", err)
	}
	r := trailReader{want: want}
	for _, day := range days {
		if err := r.file(ctx, string(p), day+suffix); err != nil {
			return Trail{}, fmt.Errorf("audit: %w", err)
		}
	}
	return r.out, nil
}

// A trailReader reads files one after the other.
type trailReader struct {
	want func(Line) bool
	out  Trail

	prev    string // hash of the line before; "": none, or unknown
	stretch int
	last    bool // the line before is the last of out.Events
}

// file reads one file.
func (r *trailReader) file(ctx context.Context, folder, name string) error {
	file, err := os.Open(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) { // removed just now
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file was only read
	_, err = r.read(ctx, file, name, func(string) {})
	return err
}

// read reads the lines of a file, and calls begin with the hash in the first one. It returns the
// number of lines.
func (r *trailReader) read(ctx context.Context, file io.Reader, name string, begin func(prev string)) (n int, err error) {
	in := &checkedReader{ctx: ctx, r: file}
	linereader.Read(in, maxLine, func(l linereader.Line) {
		if n++; n == 1 {
			if prev, whole := prevOf(l); whole {
				begin(prev)
			}
		}
		if fault := r.line(l); fault != "" {
			r.fault(fmt.Sprintf("%s, line %d: %s", name, n, fault))
		}
	})
	return n, in.err
}

// fault counts a fault, and lists it if there is room.
func (r *trailReader) fault(text string) {
	if r.out.Count++; len(r.out.Faults) < maxFaults {
		r.out.Faults = append(r.out.Faults, text)
	}
}

// line reads the next line, and returns its fault; "": none.
func (r *trailReader) line(l linereader.Line) (fault string) {
	said, whole := prevOf(l)
	follows := whole && (r.prev == "" || said == r.prev)
	if !follows {
		r.stretch++
		if r.last {
			r.out.Events[len(r.out.Events)-1].Sure = false
		}
	}
	first := r.prev == ""
	r.prev, r.last = hashOf(l.Data), false
	switch {
	case !whole:
		fault = "it cannot be read"
	case !follows && !first:
		fault = "it does not follow the line before it"
	}
	if l.Long || !bytes.Contains(l.Data, []byte(`"`+KindEvent+`"`)) {
		return fault
	}
	var event Line
	switch err := json.Unmarshal(l.Data, &event); {
	case err != nil || event.V > Version:
		r.stretch++
		return "it cannot be read"
	case event.Kind == KindEvent && r.want(event):
		r.out.Events = append(r.out.Events, TrailEvent{Line: event, Stretch: r.stretch, Sure: whole})
		r.last = true
	}
	return fault
}

// prevOf returns the hash of the line before, which is the last member of each line, and whether
// the line is whole.
func prevOf(l linereader.Line) (prev string, whole bool) {
	const name = `,"prev":"`
	i := bytes.LastIndex(l.Data, []byte(name))
	rest, ends := bytes.CutSuffix(l.Data[i+1:], []byte(`"}`))
	if l.Long || i < 0 || !ends || l.Data[0] != '{' || len(rest) != len(name)-1+len(first) {
		return "", false
	}
	return string(rest[len(name)-1:]), true
}

// A checkedReader keeps the error of a read, except [io.EOF].
type checkedReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (c *checkedReader) Read(b []byte) (n int, err error) {
	if err = c.ctx.Err(); err == nil {
		n, err = c.r.Read(b)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
