package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// events reads an event stream and calls f with the data of each message event
// until f says that it is done. It returns [errStreamEnded] if the stream ends
// first, and otherwise the reader's error.
func events(r io.Reader, f func(data []byte) (done bool, err error)) error {
	in := lines{r: bufio.NewReader(r)}
	var data []byte
	n, kind := 0, "" // of the event's data lines; its type
	dispatch := func() (bool, error) {
		defer func() { data, n, kind = nil, 0, "" }()
		if len(data) == 0 || kind != "" && kind != "message" {
			return false, nil // no data is no event: servers open a stream with one that has but an id
		}
		return f(data)
	}
	for first := true; ; first = false {
		line, readErr := in.next()
		if first {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return readErr
		}
		switch name, value, _ := strings.Cut(string(line), ":"); {
		case len(line) == 0:
			if done, err := dispatch(); done || err != nil {
				return err
			}
		case name == "data":
			if n++; n > 1 {
				data = append(data, '\n')
			}
			data = append(data, strings.TrimPrefix(value, " ")...)
		case name == "event":
			kind = strings.TrimPrefix(value, " ")
		}
		if readErr != nil {
			// Some servers leave out the blank line at the end. An event that was
			// cut off does not get by: it is no whole JSON text.
			if done, err := dispatch(); done && err == nil {
				return nil
			}
			return errStreamEnded
		}
	}
}

// Lines reads lines that end with LF, CR or CRLF.
type lines struct {
	r       *bufio.Reader
	afterCR bool // an LF now belongs to the line before
}

// next returns the next line without its end. It does not wait for the byte after
// a CR, which may come with the next event only.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		c, err := l.r.ReadByte()
		if err != nil {
			return line, err
		}
		ended := l.afterCR && c == '\n'
		l.afterCR = c == '\r'
		switch {
		case ended:
		case c == '\n', c == '\r':
			return line, nil
		default:
			line = append(line, c)
		}
	}
}
