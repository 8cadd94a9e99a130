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

// Events reads an event stream and calls f with the data of each message event until f returns
// done. It returns [ErrEnded] if the stream ends first, and otherwise the reader's error. The
// argument most is the maximum length of a line, in bytes. r has to bound the length of the stream
// and of events with many lines.
func Events(r io.Reader, most int, f func(data []byte) (done bool, err error)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, most+bufio.MaxScanTokenSize)
	in.Split(lines())
	var data []byte
	n, kind := 0, "" // size of the event's data lines; its type
	dispatch := func() (bool, error) {
		defer func() { data, n, kind = nil, 0, "" }()
		if len(data) == 0 || kind != "" && kind != "message" {
			return false, nil // no data, no event: servers begin a stream with only an id
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
	// Some servers omit the blank line at the end. A truncated event does not pass, because it is
	// no complete JSON text.
	if done, err := dispatch(); done && err == nil {
		return nil
	}
	return ErrEnded
}

// lines splits at LF, CR and CRLF. After a CR, it does not wait for the next byte, which may come
// only with the next event. It skips an LF after a CR together with the next line, because a
// scanner stops at the end of the input after a step without a line.
func lines() bufio.SplitFunc {
	afterCR := false // the next LF belongs to the previous line
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
