package lambdatest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A Stream is a streamed answer, which the function may still be writing.
type Stream struct {
	Status int
	Header http.Header

	// Body returns the parts of the answer as they arrive. A client that leaves closes Body, and
	// the function does not learn it. If the function fails midway, a read fails with a
	// *[BrokenError].
	Body io.ReadCloser
}

// A BrokenError is the error of a function that failed in the middle of an answer.
type BrokenError struct {
	Type, Message string
}

// Error implements error.
func (e *BrokenError) Error() string {
	return "the function ended its answer: " + e.Type + ": " + e.Message
}

// Headers, types and sizes of the protocol of streamed answers.
const (
	streamType   = "application/vnd.awslambda.http-integration-response"
	modeHeader   = "Lambda-Runtime-Function-Response-Mode" // the Go client sends none
	errorType    = "Lambda-Runtime-Function-Error-Type"
	errorBody    = "Lambda-Runtime-Function-Error-Body"
	maxPrelude   = 16 << 10
	preludeEnds  = 8 // bytes of zero
	runtimeCalls = "/2018-06-01/runtime/invocation/"
)

// api serves the runtime API, version 2018-06-01.
func (f *Function) api() http.Handler {
	var ready sync.Once
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+runtimeCalls+"next", func(w http.ResponseWriter, r *http.Request) {
		ready.Do(func() { close(f.ready) })
		select {
		case e := <-f.events:
			h := w.Header()
			h.Set("Lambda-Runtime-Aws-Request-Id", e.id)
			h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(f.timeout).UnixMilli(), 10))
			h.Set("Lambda-Runtime-Invoked-Function-Arn", FunctionARN)
			h.Set("Lambda-Runtime-Trace-Id", "Root=1-6920a0c1-2f6b1a7c1d2e3f4051627384")
			_, _ = w.Write(e.payload)
		case <-r.Context().Done():
		}
	})
	for path, failed := range map[string]bool{"response": false, "error": true} {
		mux.HandleFunc("POST "+runtimeCalls+"{id}/"+path, func(w http.ResponseWriter, r *http.Request) {
			if err := f.take(r, failed); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		})
	}
	return mux
}

// take passes an answer to the waiting test.
func (f *Function) take(r *http.Request, failed bool) error {
	id := r.PathValue("id")
	f.mu.Lock()
	waiting := f.waiting[id]
	delete(f.waiting, id)
	f.mu.Unlock()
	if waiting == nil {
		return errors.New("no such invocation")
	}
	if mode := r.Header.Get(modeHeader); mode != "" && mode != "streaming" {
		return fmt.Errorf("%s: %q", modeHeader, mode)
	}
	if !failed && r.Header.Get("Content-Type") == streamType {
		return takeStream(r, id, waiting)
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		waiting <- Answer{RequestID: id, Payload: body, Failed: failed}
	}
	return err
}

// takeStream reads the prelude, passes the answer to the test, and then passes the body as it
// arrives. It reads to the end, because Lambda also does if the client has left.
func takeStream(r *http.Request, id string, waiting chan<- Answer) error {
	in := bufio.NewReader(r.Body)
	s, err := readPrelude(in)
	if err != nil {
		return err
	}
	body, out := io.Pipe()
	s.Body = body
	waiting <- Answer{RequestID: id, Stream: s}
	if _, err = io.Copy(out, in); err != nil {
		_, err = io.Copy(io.Discard, in)
	}
	if broken := brokenBy(r.Trailer); broken != nil {
		out.CloseWithError(broken)
	} else {
		out.CloseWithError(err)
	}
	return err
}

// readPrelude reads the part before the body: status and headers as JSON, and eight zeros.
func readPrelude(in *bufio.Reader) (*Stream, error) {
	var text []byte
	for zeros := 0; zeros < preludeEnds; {
		b, err := in.ReadByte()
		if err != nil || len(text) >= maxPrelude {
			return nil, fmt.Errorf("prelude %q has no end: %w", text, err)
		}
		text = append(text, b)
		if zeros++; b != 0 {
			zeros = 0
		}
	}
	var prelude struct {
		StatusCode int
		Headers    map[string]string
		Cookies    []string
	}
	d := json.NewDecoder(bytes.NewReader(text[:len(text)-preludeEnds]))
	d.DisallowUnknownFields()
	if err := d.Decode(&prelude); err != nil {
		return nil, fmt.Errorf("prelude %q: %w", text, err)
	}
	return &Stream{Status: prelude.StatusCode, Header: header(prelude.Headers, prelude.Cookies)}, nil
}

// brokenBy returns the error in the trailer of an answer, or nil if the answer ended well.
func brokenBy(trailer http.Header) *BrokenError {
	kind := trailer.Get(errorType)
	if kind == "" {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(trailer.Get(errorBody))
	if err != nil {
		return &BrokenError{kind, err.Error()}
	}
	return &BrokenError{kind, string(text)}
}

// header returns the headers and cookies of an event's answer as an http.Header.
func header(values map[string]string, cookies []string) http.Header {
	h := http.Header{}
	for name, value := range values {
		h.Set(name, value)
	}
	for _, c := range cookies {
		h.Add("Set-Cookie", c)
	}
	return h
}
