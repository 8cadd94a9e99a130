package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// An ETagHash makes the mark of a server's records that [Store.RecordsIfChanged] returns, for
// stores that find out by their revisions whether any was written. Each write of a record gives it
// another one.
type ETagHash struct{ text []byte }

// Add adds a record by what identifies it in its server. All have to be added in one order.
func (m *ETagHash) Add(id, revision string) {
	m.text = append(strconv.AppendQuote(m.text, id), ' ')
	m.text = append(strconv.AppendQuote(m.text, revision), '\n')
}

// ETag returns the mark of the records that were added.
func (m *ETagHash) ETag(server string) string {
	sum := sha256.Sum256(append(strconv.AppendQuote(nil, server), m.text...))
	return hex.EncodeToString(sum[:])
}
