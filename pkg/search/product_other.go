//go:build !amd64

package search

// multipliesWide is false: there is no assembly for this processor.
const multipliesWide = false

func (v *vector) atOnce(b []byte) int { return v.paired(b) }
