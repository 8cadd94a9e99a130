package catalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The encoding, all numbers little-endian:
//
//	header   magic, version, CRC-32C of all that follows it, number of servers and
//	         tools, sizes of the next three sections, number of findings, the
//	         version of the rules by which they were found, number of items; by which
//	         recipe it was made, a hash of the operator's words, and number of hashes
//	servers  one row each, by name
//	tools    one row each, by id
//	items    prompts and resources, one row each, by id; the same rows as for tools
//	text     names, descriptions, signatures, hashes: what is read as a string
//	json     definitions
//	index    the search index
//	findings one row each, by tool, then by item
//	asked    hashes, ascending, of the words that a finding would name if a tool had such a name
//
// A span is an offset into its section and a length, four bytes each. Rows
// have a fixed size, so tool i is found without reading those before it.
//
// Decode also reads formats 2 to 4, so that an updated gateway has a catalog until its first sync.
// Format 4 does not say how the shard was made. Formats 2 and 3 have no items. Format 2 has no
// findings, and its tool rows end at endOfRow2.
const (
	magic       = "PCAT"
	version     = 5
	version4    = 4
	version3    = 3
	version2    = 2
	timeSize    = 12 // seconds since 1970, nanoseconds
	spanSize    = 8
	atVersion   = len(magic)
	atSum       = atVersion + 4
	atCounts    = atSum + 4
	header2Size = atCounts + 5*4
	atRules     = header2Size + 4
	header3Size = atRules + 4
	atItems     = header3Size
	header4Size = atItems + 4
	atMade      = header4Size
	atWords     = atMade + 4
	atAsked     = atWords + 8
	headerSize  = atAsked + 4
	askedSize   = 4
	serverSize  = spanSize + 4

	// maxBlob keeps every offset within 31 bits, so that it is an int on every machine.
	maxBlob = math.MaxInt32
)

// Where each field of a tool row begins. A field is a span into text unless its comment differs.
const (
	atID = spanSize * iota
	atTitle
	atDescription
	atSignature
	atHash
	atAnnotationTitle
	atRaw      // json
	atInput    // json; empty: absent
	atOutput   // json; empty: absent
	atApproved // json; empty: absent
	atApprovedHash
	atCurrentHash
	atState
	atURL
	atBy
	atNote
	endOfSpans
)

// Fields of an item's row that replace fields of a tool's row.
const (
	atMIMEType  = atSignature
	atArguments = atInput           // of a prompt
	atOwnName   = atAnnotationTitle // of a resource: its name, which is not part of the id
)

const (
	atAt        = endOfSpans
	atFirstSeen = atAt + timeSize
	atDecidedAt = atFirstSeen + timeSize
	atUpdatedAt = atDecidedAt + timeSize
	atRev       = atUpdatedAt + timeSize
	atFlags     = atRev + 8
	endOfRow2   = atFlags + 4
)

// Fields that format 3 added.
const (
	atEndorsedHash = endOfRow2 + spanSize*iota
	atEndorsedBy
	atBlocked  // json; empty: nothing is blocked
	atFindings // not a span: index of the first finding, and number of findings
	atEndorsedAt
	rowSize = atEndorsedAt + timeSize
)

// Where each field of a row of a finding begins.
const (
	atCode = spanSize * iota
	atWhere
	atText
	atFrom // four bytes each: from, to
	atFindingFlags
	findingSize = atFindingFlags + 4
)

// Flags of a finding.
const (
	flagSevere = 1 << iota
	flagName   // it is about the name of a member
)

// Flags of a tool row.
const (
	flagLossy    = 1 << iota
	flagRecord   // there is an approval record
	flagDisabled // the record says disabled
	flagHint     // from here on two bits for each hint: whether it is present, and its value

	flagTell       = flagHint << 8 // agents may see the note
	flagRisky      = flagTell << 1 // a finding is severe
	flagTemplate   = flagRisky << 1
	flagNested     = flagTemplate << 1 // it is nested too deeply to be called
	atRecordFormat = 24                // the bits from here on are the form of the record
)

// hints returns the hints of a, in the order of their flags.
func hints(a *tool.Annotations) [4]**bool {
	return [...]**bool{&a.ReadOnlyHint, &a.DestructiveHint, &a.IdempotentHint, &a.OpenWorldHint}
}

// noTime encodes the zero time: no real time has this number of seconds.
const noTime = math.MinInt64

// checksum finds damage when a blob is opened. SHA-256, which names the blob, takes ten times as
// long as the rest of opening; only a sync checks it.
func checksum(b []byte) uint32 {
	return crc32.Checksum(b[atCounts:], crc32.MakeTable(crc32.Castagnoli))
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, 1<<63), 0)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Unix()))
	return binary.LittleEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

func readTime(b []byte) time.Time {
	sec := int64(binary.LittleEndian.Uint64(b))
	if sec == noTime {
		return time.Time{}
	}
	return time.Unix(sec, int64(binary.LittleEndian.Uint32(b[8:]))).UTC()
}

// span reads the span at the start of b.
func span(b []byte) (from, to uint64) {
	from = uint64(binary.LittleEndian.Uint32(b))
	return from, from + uint64(binary.LittleEndian.Uint32(b[4:]))
}

// checkSpan returns an error if the span leaves a section of size bytes.
func checkSpan(b []byte, size int) error {
	if from, to := span(b); to > uint64(size) {
		return fmt.Errorf("span %d–%d outside a section of %d bytes", from, to, size)
	}
	return nil
}
