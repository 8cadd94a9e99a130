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

// Most servers send the same listing each time. The gateway compares a reply with the last one by
// its SHA-256, and parses the reply only if it differs. The comparison skips the request id, which
// differs each time: the id is a number at the same position in both replies.

// A cachedPage describes the last read of a page of a list.
type cachedPage struct {
	method string
	at     int               // position of the request id in the reply
	sum    [sha256.Size]byte // of the reply without the id
	cursor json.RawMessage   // of the next page; nil: this is the last page
}

// cachedLists describes the lists that a server sent last.
type cachedLists struct {
	digest  string // [outcome.Outcome.Lists]
	pages   []cachedPage
	refused []outcome.Refusal
	ttl     time.Duration
}

// sumOf returns the SHA-256 of a reply without the request id, which is raw[from:to].
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

// A pageReader reads a reply that contains a page.
type pageReader struct {
	want   *cachedPage   // the same page of the last load; nil: unknown
	page   cachedPage    // the page of this load
	raw    []byte        // the reply, if it is unchanged
	buffer *bytes.Buffer // the pooled buffer that holds raw; nil: none
}

// unchanged reports whether a reply equals the last one.
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

// reply works like [replyTo], but returns no result for an unchanged reply.
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

// replies are buffers for replies. The replies of most servers fit into them.
var replies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptReply is the largest buffer that the pool keeps.
const maxKeptReply = 1 << 20

func release(b *bytes.Buffer) {
	if b != nil && b.Cap() <= maxKeptReply {
		replies.Put(b)
	}
}

// json reads a reply that is no stream. It copies the reply if the caller has to parse it.
func (p *pageReader) json(resp *http.Response, id int64) (json.RawMessage, error) {
	b := replies.Get().(*bytes.Buffer)
	b.Reset()
	n, err := b.ReadFrom(io.LimitReader(resp.Body, maxResponse+1))
	if err == nil && n > maxResponse {
		err = errTooLong
	}
	if err == nil && p.unchanged(id, b.Bytes()) {
		p.buffer = b
		return nil, nil
	}
	defer release(b)
	if err != nil {
		return nil, err
	}
	return p.parse(id, bytes.Clone(b.Bytes()))
}

// reader returns the reader of the next page of the list all.
func (l *listing) reader(all *pages) *pageReader {
	p := &pageReader{page: cachedPage{method: all.list.method}}
	if i := len(l.cached) + len(all.cached); l.before != nil && i < len(l.before.pages) && l.before.pages[i].method == all.list.method {
		p.want = &l.before.pages[i]
	}
	return p
}

// note adds a page to the list all, and returns the cursor of the next page.
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
		p.page.cursor = bytes.Clone(cursor) // a subslice would keep the whole page in memory
	}
	all.cached = append(all.cached, p.page)
	return cursor, nil
}

// parse parses the unchanged lists after another list has changed. After that, the load parses all
// later pages too.
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
		if r.buffer != nil {
			raw = bytes.Clone(raw)
			release(r.buffer)
		}
		answer, err := parseReply(raw)
		if err != nil {
			return err
		}
		if _, err := p.add(answer.result); err != nil {
			return err
		}
	}
	p.unparsed = nil
	return nil
}

// conclude completes the outcome of an available server: with the definitions, or as unchanged if
// every list is unchanged.
func (l *load) conclude(out *outcome.Outcome, found *listing) error {
	whole := len(out.Unread) == 0 && l.t.Command == nil
	if h := found.before; h != nil && whole && len(found.cached) == len(h.pages) {
		out.Lists, out.Same, out.Refused, out.ListTTL = h.digest, true, slices.Clone(h.refused), h.ttl
		for _, all := range found.unparsed {
			for _, r := range all.unparsed {
				release(r.buffer)
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
		h = &cachedLists{digestOf(found.cached), found.cached, slices.Clone(found.refused), found.ttl}
		out.Lists = h.digest
	}
	l.server.cacheLists(h)
	return nil
}

// cacheLists stores the state of the server's lists; nil means unknown.
func (s *serverState) cacheLists(h *cachedLists) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = h
}

// cachedLists returns the server's lists of the last load, if the caller has their definitions.
func (l *load) cachedLists() *cachedLists {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if h := l.server.lists; h != nil && l.t.Command == nil && h.digest == l.t.Lists {
		return h
	}
	return nil
}
