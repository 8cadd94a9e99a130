package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Pages contain secrets, such as the CSRF token and the texts of servers, beside text from their
// address, such as a search. An attacker who sees the length of compressed answers could guess a
// secret by sending many such addresses (BREACH). But the attacker's page can only make the browser
// send them as requests from another site, and browsers say so in Sec-Fetch-Site. So the console
// compresses a page only if its own pages, or the person, asked for it. A random mask around each
// CSRF token would protect nothing else of the page.

// compressesPage reports whether the answer to r, which is a page, may be compressed.
func compressesPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return acceptsGzip(r) && (site == "same-origin" || site == "none")
}

// acceptsGzip reports whether the client of r accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		weight = strings.ReplaceAll(weight, " ", "")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// writers has idle writers. A new one takes 800 KB of memory.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// writePage writes a page with a status, compressed if it may be.
func writePage(w http.ResponseWriter, r *http.Request, status int, page *bytes.Buffer) {
	w.Header().Add("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if !compressesPage(r) {
		w.WriteHeader(status)
		_, _ = page.WriteTo(w) // fails only if the client has disconnected
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, ok := writers.Get().(*gzip.Writer)
	if !ok {
		return // unreachable: the pool has only these writers
	}
	defer writers.Put(z)
	z.Reset(w)
	_, _ = page.WriteTo(z) // as above
	_ = z.Close()
}

// packed returns data as gzip, in the smallest form.
func packed(data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // unreachable: the level is valid, and a write to memory does not fail
	}
	return b.Bytes()
}
