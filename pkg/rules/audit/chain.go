package audit

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Snapshot has the files of some days as of one moment. It excludes lines that were written
// later.
type Snapshot struct {
	Days []string // oldest first

	folder string
	sizes  map[string]int64
	before string // the day of the file before the first one; "": none
	after  string // the day of the file after the last one; "": none
	last   string // hash of the last line, if the program that writes it still knows it
}

// Snapshot returns the files of the days from since until just before until. A zero time is no
// bound.
func (d *Dir) Snapshot(since, until time.Time) (Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.Folder().snapshot(since, until)
	if size, is := s.sizes[d.day]; err == nil && is && s.after == "" && !d.closed && d.prev != "" {
		if s.last = d.prev; d.file != nil {
			s.sizes[d.day] = min(size, d.size)
		}
	}
	return s, err
}

// snapshot is [Dir.Snapshot] for a folder to which nobody writes now.
func (p Folder) snapshot(since, until time.Time) (s Snapshot, err error) {
	s = Snapshot{folder: string(p), sizes: map[string]int64{}}
	days, err := daysOf(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	for _, day := range days {
		switch {
		case !since.IsZero() && day < dayOf(since):
			s.before = day
			continue
		case !until.IsZero() && day > dayOf(until.Add(-1)):
			if s.after == "" {
				s.after = day
			}
			continue
		}
		info, failed := os.Stat(s.path(day))
		if failed == nil {
			s.Days, s.sizes[day] = append(s.Days, day), info.Size()
		}
		err = errors.Join(err, failed)
	}
	if err != nil {
		return s, fmt.Errorf("audit: %w", err)
	}
	return s, nil
}

func (s Snapshot) path(day string) string { return filepath.Join(s.folder, day+suffix) }

// A Chain says what the hashes in the lines of some days show.
type Chain struct {
	Days    []ChainDay `json:"days" nullable:"false" doc:"oldest first"`
	Faults  []string   `json:"faults" nullable:"false" doc:"the first 20 places where a line is damaged, missing or foreign"`
	Count   int        `json:"fault_count" doc:"number of such places"`
	Partial bool       `json:"partial,omitempty" doc:"the time was over before the last line: the last day of the list and later days are not checked to their end"`
}

// A ChainDay is the file of a day.
type ChainDay struct {
	Day    string `json:"day"`
	Lines  int    `json:"lines"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256" doc:"of the file up to these bytes"`
	Prev   string `json:"prev" doc:"hash of the line before the first line; 64 zeros: there was none"`
	Last   string `json:"last" doc:"hash of the last line"`
}

// Lines returns the number of checked lines.
func (c Chain) Lines() (n int) {
	for _, d := range c.Days {
		n += d.Lines
	}
	return n
}

// Last returns the hash of the last checked line; "": none was checked.
func (c Chain) Last() string {
	if len(c.Days) == 0 {
		return ""
	}
	return c.Days[len(c.Days)-1].Last
}

// Check follows the hashes from line to line, in bounded memory. If ctx ends, it returns what it
// has checked so far, and Partial is set.
func (s Snapshot) Check(ctx context.Context) (Chain, error) {
	return s.read(ctx, func(string) (io.Writer, error) { return io.Discard, nil })
}

// read checks the lines, and copies the file of each day to the writer that open returns.
func (s Snapshot) read(
	ctx context.Context,
	open func(day string) (io.Writer, error),
) (c Chain, _ error) {
	c.Days = []ChainDay{}
	r := trailReader{want: func(Line) bool { return false }}
	r.out.Faults = []string{}
	defer func() { c.Faults, c.Count = r.out.Faults, r.out.Count }()
	if s.before != "" {
		last, err := (&Dir{path: s.folder}).before([]string{s.before})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("audit: %w", err)
		}
		if last.is != nil {
			r.prev = last.hash
		}
	}
	for _, day := range s.Days {
		w, err := open(day)
		if err != nil {
			return c, err
		}
		one, err := s.day(ctx, &r, day, w)
		c.Days = append(c.Days, one)
		if ctx.Err() != nil {
			c.Partial = true
			return c, nil // the end of the time is no fault
		}
		if err != nil {
			return c, fmt.Errorf("audit: %w", err)
		}
	}
	if len(s.Days) > 0 {
		s.end(&r)
	}
	return c, nil
}

// day reads the file of a day.
func (s Snapshot) day(
	ctx context.Context,
	r *trailReader,
	day string,
	w io.Writer,
) (out ChainDay, err error) {
	out.Day, out.Prev = day, r.prev
	file, err := os.Open(s.path(day))
	if errors.Is(err, fs.ErrNotExist) {
		r.fault(day + suffix + " was removed while it was read")
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	sum := &countedHash{Hash: sha256.New()}
	in := io.TeeReader(io.LimitReader(file, s.sizes[day]), io.MultiWriter(sum, w))
	out.Lines, err = r.read(ctx, in, day+suffix, func(prev string) { out.Prev = prev })
	out.Bytes, out.SHA256, out.Last = sum.n, hex.EncodeToString(sum.Sum(nil)), r.prev
	if err == nil && sum.n < s.sizes[day] {
		r.fault(fmt.Sprintf("%s%s has %d bytes now, and had %d", day, suffix, sum.n, s.sizes[day]))
	}
	return out, err
}

// end compares the last line with what is known about it: the line after it names its hash, or the
// program that wrote it still knows the hash.
func (s Snapshot) end(r *trailReader) {
	last := s.Days[len(s.Days)-1]
	known := s.last
	if s.after != "" {
		known = s.firstPrev()
	}
	if known != "" && r.prev != known {
		r.fault(last + suffix + ": lines are missing at its end, or its last line was changed")
	}
}

// firstPrev returns the hash in the first line of the file after the last one; "": it cannot be
// read.
func (s Snapshot) firstPrev() string {
	file, err := os.Open(s.path(s.after))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // the file was only read
	line, err := bufio.NewReaderSize(file, maxLine).ReadSlice('\n')
	if err != nil {
		return ""
	}
	prev, _ := prevOf(linereader.Line{Data: line[:len(line)-1]})
	return prev
}

type countedHash struct {
	hash.Hash
	n int64
}

func (c *countedHash) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.Hash.Write(b)
}

//go:embed verify.py
var verifyScript []byte

//go:embed evidence.txt
var evidenceText []byte

// Evidence is the file manifest.json of an evidence archive.
type Evidence struct {
	Made     time.Time         `json:"made"`
	By       string            `json:"by"`      // the person who downloaded the archive
	Gateway  string            `json:"gateway"` // its address
	Version  string            `json:"version"` // of the program
	Settings map[string]string `json:"settings"`
	Chain
}

// WriteEvidence writes a zip archive with the whole files of the days, a manifest with their
// hashes, and a script that checks the files without this program. It reads each file once, in
// bounded memory. After an error the archive has no end, so that no program opens it.
func (s Snapshot) WriteEvidence(ctx context.Context, w io.Writer, e Evidence) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	create := func(name string) (io.Writer, error) {
		return z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: e.Made})
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"README.txt", evidenceText}, {"verify.py", verifyScript}} {
		out, err := create(f.name)
		if err == nil {
			_, err = out.Write(f.data)
		}
		if err != nil {
			return err
		}
	}
	var err error
	e.Chain, err = s.read(
		ctx,
		func(day string) (io.Writer, error) { return create("audit/" + day + suffix) },
	)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	e.Made = e.Made.UTC().Truncate(time.Second)
	manifest, err := rawjson.Encode(e)
	if err != nil {
		return err
	}
	out, err := create("manifest.json")
	if err == nil {
		_, err = io.WriteString(out, rawjson.Indent(manifest, "", "  ")+"\n")
	}
	if err != nil {
		return err
	}
	return z.Close()
}

// Name returns a file name for the archive, without its extension.
func (s Snapshot) Name() string {
	if len(s.Days) == 0 {
		return "portcullis-evidence"
	}
	ends := slices.Compact([]string{s.Days[0], s.Days[len(s.Days)-1]})
	name := "portcullis-evidence"
	for _, day := range ends {
		name += "-" + day
	}
	return name
}
