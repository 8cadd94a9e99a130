package object

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey and maxSegment are limits that every store can keep: an S3 key has at most 1,024 bytes, a
// file name at most 255.
const (
	maxKey     = 512
	maxSegment = 128
)

// CheckKey returns an error that wraps [ErrKey] unless every store can keep key. Every [Store]
// calls it first, so that a key that works on a laptop also works on S3. No key can name a file
// outside the folder or a store's own temporary file.
func CheckKey(key string) error {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.Contains(key, `\`) || strings.ContainsFunc(key, unicode.IsControl) {
		return fmt.Errorf("%q: %w", key, ErrKey)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' || len(segment) > maxSegment {
			return fmt.Errorf("%q: %w", key, ErrKey)
		}
	}
	return nil
}
