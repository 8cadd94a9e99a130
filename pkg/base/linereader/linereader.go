// Package linereader reads lines in bounded memory, however long they are.
package linereader

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// tail is how many bytes Read keeps from the end of a line that is too long.
const tail = 512

// A Line is one line of a stream. Its bytes are valid until Read calls f again.
type Line struct {
	Data []byte // without the line end; if the line is too long, its beginning
	Tail []byte // the end of a line that is too long
	Size int    // of the whole line
	Long bool   // it is too long; the bytes between Data and Tail are lost
}

// Read calls f with each line of r until r ends, in bounded memory for any input. The text after
// the last line end is a line, too.
func Read(r io.Reader, limit int, f func(Line)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var l Line
	for {
		part, err := in.ReadSlice('\n')
		l.add(part, limit)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if l.Size > 0 && (err == nil || len(part) > 0 || len(l.Data) > 0) {
			l.trim()
			f(l)
		}
		if err != nil {
			return
		}
		if cap(l.Data) > keptBuffer {
			l.Data = nil // one long line must not keep its memory forever
		}
		l = Line{Data: l.Data[:0]}
	}
}

// keptBuffer is the most memory that Read keeps for the next line.
const keptBuffer = 256 << 10

// add appends the next part of the line.
func (l *Line) add(part []byte, limit int) {
	l.Size += len(part)
	if room := limit + 2 - len(l.Data); !l.Long { // the line end does not count
		if len(part) <= room {
			l.Data = append(l.Data, part...)
			return
		}
		l.Data, part = append(l.Data, part[:room]...), part[room:]
		l.Long = true
	}
	l.Tail = append(l.Tail, part[max(0, len(part)-tail):]...)
	if over := len(l.Tail) - tail; over > 0 {
		l.Tail = append(l.Tail[:0], l.Tail[over:]...)
	}
}

// trim removes the line end.
func (l *Line) trim() {
	last := &l.Data
	if l.Long {
		last = &l.Tail
	}
	before := len(*last)
	*last = bytes.TrimSuffix(bytes.TrimSuffix(*last, []byte("\n")), []byte("\r"))
	l.Size -= before - len(*last)
}
