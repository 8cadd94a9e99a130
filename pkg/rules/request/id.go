package request

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// An id is R- and eight letters of Crockford's base32, 40 random bits: short enough to read aloud,
// and without letters that look alike.
const (
	idPrefix = "R-"
	idLength = 8
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// NewID returns a random id.
func NewID() string {
	b := make([]byte, idLength)
	_, _ = rand.Read(b) // it never fails
	for i := range b {
		b[i] = alphabet[b[i]%byte(len(alphabet))]
	}
	return idPrefix + string(b)
}

// ParseID returns the stored form of an id that a person typed: in any case, with O for 0 and I or
// L for 1.
func ParseID(s string) (string, error) {
	upper := strings.ToUpper(strings.TrimSpace(s))
	letters, ok := strings.CutPrefix(upper, idPrefix)
	letters = strings.NewReplacer("O", "0", "I", "1", "L", "1").Replace(letters)
	if !ok || len(letters) != idLength || strings.Trim(letters, alphabet) != "" {
		return "", fmt.Errorf("%.40q is no id of a request, such as R-7KQ2M4XD", s)
	}
	return idPrefix + letters, nil
}

// checkID returns an error for an id that is not in the stored form.
func checkID(id string) error {
	parsed, err := ParseID(id)
	if err == nil && parsed != id {
		err = fmt.Errorf("%q is not in the stored form of an id, %s", id, parsed)
	}
	return err
}
