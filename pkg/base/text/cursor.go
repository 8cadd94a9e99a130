package text

import (
	"encoding/base64"
	"encoding/binary"
)

// maxCursor is the longest cursor. It names a resource by a URI of 2 KB.
const maxCursor = 8 << 10

// NewCursor returns the text with which a client requests the next page of a list. The cursor
// contains the parts that name the last entry of the page before, not the entry's number. So no
// entry is left out or repeated if other entries are added or removed between two requests. The
// first part is never empty.
//
// A client can read a cursor and make one up, so the code that reads a cursor must check each part.
func NewCursor(list string, entry ...string) string {
	b := appendPart(nil, list)
	for _, part := range entry {
		b = appendPart(b, part)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func appendPart(b []byte, part string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// ReadCursor returns the n parts of the entry. They are all empty for the cursor "", which requests
// the first page. ok is false for a text that [NewCursor] does not return for the list.
func ReadCursor(list, cursor string, n int) (entry []string, ok bool) {
	if cursor == "" {
		return make([]string, n), true
	}
	if len(cursor) > maxCursor {
		return nil, false
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, false
	}
	for range 1 + n {
		size, read := binary.Uvarint(b)
		if read <= 0 || size > uint64(len(b)-read) {
			return nil, false
		}
		b = b[read:]
		entry, b = append(entry, string(b[:size])), b[size:]
	}
	// A decoder accepts more than one text for the same bytes, and bytes may be left over.
	if entry[0] != list || entry[1] == "" || NewCursor(list, entry[1:]...) != cursor {
		return nil, false
	}
	return entry[1:], true
}
