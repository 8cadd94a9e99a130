package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// problemPages shows a problem of next as a page if a browser sent the request, for example to an
// unknown address.
func (c *Console) problemPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !wantsHTML(r.Header.Get("Accept")) {
			next.ServeHTTP(w, r)
			return
		}
		buffered := &problemBuffer{ResponseWriter: w}
		next.ServeHTTP(buffered, r)
		if !buffered.problem {
			return
		}
		w.Header().Del("Content-Length") // it is the length of the problem, not of the page
		var p problemAnswer
		if err := json.Unmarshal(buffered.body.Bytes(), &p); err != nil || p.Detail == "" {
			p.Detail = http.StatusText(buffered.status)
		}
		c.problem(w, r, buffered.status, sentence(p.text()))
	})
}

// A problemAnswer is a problem of the API.
type problemAnswer struct {
	Detail string
	Errors []struct{ Message, Location string }
}

// maxFields is how many refused fields of a request a page names.
const maxFields = 5

// text returns the detail for a person: the refused fields and the reasons, if the API has them.
func (p problemAnswer) text() string {
	if p.Detail != "validation failed" || len(p.Errors) == 0 {
		return p.Detail
	}
	var fields []string
	for _, e := range p.Errors[:min(len(p.Errors), maxFields)] {
		_, field, _ := strings.Cut(e.Location, ".") // after query or body
		fields = append(fields, cmp.Or(field, e.Location)+": "+e.Message)
	}
	return "nothing was done, because the request has an invalid " +
		"value: " + strings.Join(fields, "; ")
}

// A problemBuffer buffers an answer that is a problem, and writes any other answer directly.
type problemBuffer struct {
	http.ResponseWriter
	wrote, problem bool
	status         int
	body           bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (h *problemBuffer) WriteHeader(status int) {
	if h.wrote {
		return
	}
	kind := h.Header().Get("Content-Type")
	h.wrote, h.status = true, status
	h.problem = strings.HasPrefix(kind, "application/problem+json") || status >= http.StatusBadRequest && strings.HasPrefix(kind, "text/plain")
	if !h.problem {
		h.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (h *problemBuffer) Write(b []byte) (int, error) {
	if !h.wrote {
		h.WriteHeader(http.StatusOK)
	}
	if h.problem {
		return h.body.Write(b)
	}
	return h.ResponseWriter.Write(b)
}
