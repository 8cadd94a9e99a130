package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// Most servers say the same each time that they are asked. What they say is compared byte for byte, by
// its SHA-256, with what they said the last time, and parsed if it is something else. Of a reply the id of
// the request does not count, which is another one each time: it is a number at the same place in both.

// A cachedPage is a page of a list as it was read.
type cachedPage struct {
	method string
	at     int               // where the id of the request stood in the reply
	sum    [sha256.Size]byte // of the reply without the id
	cursor json.RawMessage   // of the next page; nil: there is none
}

// cachedLists is what is kept of the lists that a server said last.
type cachedLists struct {
	digest  string // [outcome.Outcome.Lists]
	pages   []cachedPage
	refused []outcome.Refusal
	ttl     time.Duration
}

// sumOf returns the SHA-256 of a reply in which the id of the request stands at raw[from:to].
func sumOf(raw []byte, from, to int) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(raw[:from])
	h.Write(raw[to:])
	h.Sum(sum[:0])
	return sum
}

// digestOf returns the SHA-256 of pages.
func digestOf(pages []cachedPage) string {
	var b []byte
	for _, p := range pages {
		b = append(binary.AppendUvarint(b, uint64(len(p.method))), p.method...)
		b = append(binary.AppendUvarint(b, uint64(p.at)), p.sum[:]...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A pageReader reads the reply that has a page.
type pageReader struct {
	want *cachedPage   // what it was the last time; nil: not known
	page cachedPage    // what it is
	raw  []byte        // the reply, if it is that again
	held *bytes.Buffer // in which raw is; nil: nobody else uses raw
}

// unchanged reports whether a reply is as it was.
func (p *pageReader) unchanged(id int64, raw []byte) bool {
	if p.want == nil {
		return false
	}
	text := strconv.AppendInt(nil, id, 10)
	from, to := p.want.at, p.want.at+len(text)
	if to > len(raw) || !bytes.Equal(raw[from:to], text) || sumOf(raw, from, to) != p.want.sum {
		return false
	}
	p.page, p.raw = *p.want, raw
	return true
}

// reply is [replyTo]. It returns no result if the reply is as it was.
func (p *pageReader) reply(id int64, raw []byte) (json.RawMessage, error) {
	if p.unchanged(id, raw) {
		return nil, nil
	}
	return p.parse(id, raw)
}

func (p *pageReader) parse(id int64, raw []byte) (json.RawMessage, error) {
	r, err := readReply(id, raw)
	if err != nil {
		return nil, err
	}
	p.page.at, p.page.sum = r.at, sumOf(raw, r.at, r.at+len(r.id))
	return r.result, nil
}

// replies are buffers that replies are read into, as long as what most servers say.
var replies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptReply is the largest buffer that is used again.
const maxKeptReply = 1 << 20

func release(b *bytes.Buffer) {
	if b != nil && b.Cap() <= maxKeptReply {
		replies.Put(b)
	}
}

// json reads a reply that is no stream. It is copied if it has to be parsed.
func (p *pageReader) json(resp *http.Response, id int64) (json.RawMessage, error) {
	b := replies.Get().(*bytes.Buffer)
	b.Reset()
	n, err := b.ReadFrom(io.LimitReader(resp.Body, maxResponse+1))
	if err == nil && n > maxResponse {
		err = errTooLong
	}
	if err == nil && p.unchanged(id, b.Bytes()) {
		p.held = b
		return nil, nil
	}
	defer release(b)
	if err != nil {
		return nil, err
	}
	return p.parse(id, bytes.Clone(b.Bytes()))
}

// reader returns what reads the next page of all.
func (l *listing) reader(all *pages) *pageReader {
	p := &pageReader{page: cachedPage{method: all.of.method}}
	if i := len(l.heard) + len(all.heard); l.before != nil && i < len(l.before.pages) && l.before.pages[i].method == all.of.method {
		p.want = &l.before.pages[i]
	}
	return p
}

// note adds a page that was read to all, and returns the cursor of the next.
func (l *listing) note(all *pages, p *pageReader, result json.RawMessage) (cursor json.RawMessage, err error) {
	if p.raw != nil {
		all.unparsed = append(all.unparsed, p)
		cursor = p.page.cursor
	} else {
		if err := l.parse(); err != nil {
			return nil, err
		}
		if err := all.parse(); err != nil {
			return nil, err
		}
		if cursor, err = all.add(result); err != nil {
			return nil, err
		}
		p.page.cursor = bytes.Clone(cursor) // or it would hold the whole page
	}
	all.heard = append(all.heard, p.page)
	return cursor, nil
}

// parse parses the lists that are as they were, because another one is not. From then on every page is.
func (l *listing) parse() error {
	l.before = nil
	for _, all := range l.unparsed {
		if err := all.parse(); err != nil {
			return err
		}
		l.join(all)
	}
	l.unparsed = nil
	return nil
}

func (p *pages) parse() error {
	for _, r := range p.unparsed {
		raw := r.raw
		if r.held != nil {
			raw = bytes.Clone(raw)
			release(r.held)
		}
		said, err := parseReply(raw)
		if err != nil {
			return err
		}
		if _, err := p.add(said.result); err != nil {
			return err
		}
	}
	p.unparsed = nil
	return nil
}

// conclude completes the outcome of a server that is available: with the definitions, or as the one
// before if every list is as it was.
func (l *load) conclude(out *outcome.Outcome, found *listing) error {
	whole := len(out.Unread) == 0 && l.t.Command == nil
	if h := found.before; h != nil && whole && len(found.heard) == len(h.pages) {
		out.Lists, out.Same, out.Refused, out.ListTTL = h.digest, true, slices.Clone(h.refused), h.ttl
		for _, all := range found.unparsed {
			for _, r := range all.unparsed {
				release(r.held)
			}
		}
		return nil
	}
	if err := found.parse(); err != nil {
		return err
	}
	out.Tools, out.Items, out.ListTTL, out.Refused = found.tools, found.items, found.ttl, found.refused
	out.Nested = found.nested
	var h *cachedLists
	if whole {
		h = &cachedLists{digestOf(found.heard), found.heard, slices.Clone(found.refused), found.ttl}
		out.Lists = h.digest
	}
	l.server.cacheLists(h)
	return nil
}

// cacheLists notes what the server's lists are; nil: that is not known.
func (s *serverState) cacheLists(h *cachedLists) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = h
}

// cachedLists returns what the server's lists were the last time, if the caller has what they
// define.
func (l *load) cachedLists() *cachedLists {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if h := l.server.heard; h != nil && l.t.Command == nil && h.digest == l.t.Lists {
		return h
	}
	return nil
}
