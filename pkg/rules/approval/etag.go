package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// An ETagHash computes the mark of a server's records that [Store.RecordsIfChanged] returns. It is
// for stores that detect writes by the revisions of their records. Each write of a record changes
// the mark.
type ETagHash struct{ text []byte }

// Add adds the record with this id within its server, at this revision. Callers add the records in
// the same order each time.
func (m *ETagHash) Add(id, revision string) {
	m.text = append(strconv.AppendQuote(m.text, id), ' ')
	m.text = append(strconv.AppendQuote(m.text, revision), '\n')
}

// ETag returns the mark of the added records.
func (m *ETagHash) ETag(server string) string {
	sum := sha256.Sum256(append(strconv.AppendQuote(nil, server), m.text...))
	return hex.EncodeToString(sum[:])
}
