// Package sse reads event streams, the text of server-sent events, in bounded memory.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrEnded is a stream that ended before its reader was done.
var ErrEnded = errors.New("event stream ended without the reply")

// Events reads an event stream and calls f with the data of each message event until f says that
// it is done. It returns [ErrEnded] if the stream ends first, and otherwise the reader's error. A
// line may have most bytes; how long the stream is, and what an event of many lines adds up to, is
// for r to bound.
func Events(r io.Reader, most int, f func(data []byte) (done bool, err error)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, most+bufio.MaxScanTokenSize)
	in.Split(lines())
	var data []byte
	n, kind := 0, "" // of the event's data lines; its type
	dispatch := func() (bool, error) {
		defer func() { data, n, kind = nil, 0, "" }()
		if len(data) == 0 || kind != "" && kind != "message" {
			return false, nil // no data is no event: servers open a stream with one that has but an id
		}
		return f(data)
	}
	for first := true; in.Scan(); first = false {
		line := in.Bytes()
		if first {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if done, err := dispatch(); done || err != nil {
				return err
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimPrefix(value, []byte(" ")); string(name) {
		case "data":
			if n++; n > 1 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			kind = string(value)
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	// Some servers leave out the blank line at the end. An event that was
	// cut off does not get by: it is no whole JSON text.
	if done, err := dispatch(); done && err == nil {
		return nil
	}
	return ErrEnded
}

// lines splits at LF, CR and CRLF. It does not wait for the byte after a CR, which may come
// with the next event only; and it skips an LF together with what follows, since a scanner that
// has reached the end of its input asks no more after a step without a line.
func lines() bufio.SplitFunc {
	afterCR := false // an LF now belongs to the line before
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		if afterCR && len(data) > 0 {
			if afterCR = false; data[0] == '\n' {
				advance, data = 1, data[1:]
			}
		}
		end := bytes.IndexAny(data, "\r\n")
		switch {
		case end >= 0:
			afterCR = data[end] == '\r'
			return advance + end + 1, data[:end:end], nil
		case atEOF && len(data) > 0:
			return advance + len(data), data, nil
		}
		return advance, nil, nil
	}
}
