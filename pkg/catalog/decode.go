package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Decode opens the result of [Snapshot.Encode] in place, so b must not change afterwards. For any
// other bytes it returns an [ErrUnusable].
func Decode(b []byte) (*Snapshot, error) {
	s, err := decodeReader(b)
	if err != nil {
		return nil, err
	}
	return newSnapshot([]*shard{s}), nil
}

// decodeReader opens a shard with its search index, for processes that search.
func decodeReader(b []byte) (*shard, error) {
	s, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode catalog: %w: %w", ErrUnusable, err)
	}
	return s.openIndex()
}

// decodeBase opens a shard for a sync. It does not open the search index, which this version may be
// unable to read although it reads the definitions. It computes the SHA-256, so that the next sync
// replaces a damaged shard.
func decodeBase(b []byte) (*shard, error) {
	s, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode catalog: %w: %w", ErrUnusable, err)
	}
	s.sha256 = object.Version(b)
	return s, nil
}

// decode opens a shard without its search index.
func decode(b []byte) (*shard, error) {
	if len(b) < header2Size || string(b[:len(magic)]) != magic {
		return nil, errors.New("not a catalog")
	}
	f, err := formatOf(b)
	if err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(b[atSum:]) != checksum(b) {
		return nil, errors.New("checksum does not match")
	}
	counts, rest := b[atCounts:], b[f.header:]
	var sections [7][]byte
	for i, size := range f.sections {
		count := uint64(binary.LittleEndian.Uint32(counts[4*i:]))
		switch i {
		case sectionRows:
			count += f.items
		case sectionAsked:
			count = f.asked
		}
		n := size * count
		if n > uint64(len(rest)) || n > maxBlob {
			return nil, fmt.Errorf("section %d has %d bytes, %d are left", i, n, len(rest))
		}
		sections[i], rest = rest[:n:n], rest[n:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(rest))
	}
	s := &shard{
		blob: b,
		text: unsafe.String(unsafe.SliceData(sections[sectionText]), len(sections[sectionText])), //nolint:gosec // G103: the bytes of a shard never change, and a mapped one stays mapped
		rows: sections[sectionRows], rowSize: int(f.sections[sectionRows]), tools: int(binary.LittleEndian.Uint32(counts[4:])),
		json:  sections[3],
		found: sections[5], rules: f.rules,
		made: f.made, words: f.words, asked: sections[sectionAsked],
		rawIndex: sections[4],
	}
	if err := s.readServers(sections[0]); err != nil {
		return nil, err
	}
	if err := s.checkTools(); err != nil {
		return nil, err
	}
	return s, nil
}

// The sections of a shard that decode and fields refer to, by number.
const (
	sectionRows  = 1
	sectionText  = 2
	sectionAsked = 6
)

// A form describes how one format of a shard differs from the others.
type form struct {
	header   int
	sections []uint64 // size of one row of each section
	rules    int
	items    uint64
	made     int
	words    uint64
	asked    uint64 // number of names on which findings depend
}

func formatOf(b []byte) (form, error) {
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	switch v, sections := number(atVersion), []uint64{serverSize, rowSize, 1, 1, 1, findingSize}; {
	case v == version2:
		return form{header: header2Size, sections: []uint64{serverSize, endOfRow2, 1, 1, 1}}, nil
	case v < version2 || v > version:
		return form{}, fmt.Errorf("format %d, want %d to %d", v, version2, version)
	case len(b) < header3Size || v >= version4 && len(b) < header4Size || v == version && len(b) < headerSize:
		return form{}, errors.New("header is cut short")
	case v == version3:
		return form{header: header3Size, sections: sections, rules: int(number(atRules))}, nil
	case v == version4:
		return form{header: header4Size, sections: sections, rules: int(number(atRules)), items: uint64(number(atItems))}, nil
	default:
		return form{
			header: headerSize, sections: append(sections, askedSize), rules: int(number(atRules)), items: uint64(number(atItems)),
			made: int(number(atMade)), words: binary.LittleEndian.Uint64(b[atWords:]), asked: uint64(number(atAsked)),
		}, nil
	}
}

func (s *shard) readServers(rows []byte) error {
	s.servers = make([]Server, len(rows)/serverSize)
	for i := range s.servers {
		row := rows[i*serverSize:]
		if err := checkSpan(row, len(s.text)); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		s.servers[i] = Server{
			Name:    s.string(row),
			Enabled: binary.LittleEndian.Uint32(row[spanSize:])&1 != 0,
		}
		if i > 0 && s.servers[i-1].Name >= s.servers[i].Name {
			return fmt.Errorf("server %d is out of order", i)
		}
	}
	return nil
}

// checkTools checks that each offset of a row is within its section, that ids are in order, and
// that the shard has the server of each tool and item. It counts each server's tools and items.
func (s *shard) checkTools() error {
	c := rowChecker{shard: s}
	for i := range s.tools {
		if err := c.row(i); err != nil {
			return fmt.Errorf("tool %d: %w", i, err)
		}
		if c.server.Tools == 0 {
			c.server.First = i
		}
		c.server.Tools++
	}
	c.prev, c.server = "", nil
	for i := s.tools; i < s.items(); i++ {
		if err := c.row(i); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if s.id(i).Kind == tool.Tool {
			return fmt.Errorf("item %d is a tool", i)
		}
		if c.server.Items == 0 {
			c.server.FirstItem = i
		}
		c.server.Items++
	}
	return s.checkFindings(c.found)
}

// A rowChecker checks the rows in their order.
type rowChecker struct {
	*shard
	prev   string  // id of the row before
	server *Server // of that row
	found  int     // findings so far
}

func (c *rowChecker) row(i int) error {
	row, text, json := c.shard.row(i), len(c.text), len(c.json)
	for at := 0; at < endOfSpans; at += spanSize {
		size := text
		if at >= atRaw && at <= atApproved {
			size = json
		}
		if err := checkSpan(row[at:], size); err != nil {
			return err
		}
	}
	if len(row) > endOfRow2 {
		n, err := c.checkAdded(row, c.found)
		if err != nil {
			return err
		}
		c.found = n
	}
	id := c.string(row[atID:])
	if id <= c.prev {
		return errors.New("it is out of order")
	}
	c.prev = id
	name, _, ok := strings.Cut(id, ":")
	if c.server == nil || c.server.Name != name {
		at, found := c.findServer(name)
		if !ok || !found {
			return errors.New("it has no server")
		}
		c.server = &c.servers[at]
	}
	return nil
}
