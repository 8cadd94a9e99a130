package upstream

import (
	"bytes"
	"slices"
	"strings"
)

// A prefilter quickly finds out whether a text may contain one of many strings. It searches for the
// longest run of letters and digits of each string, because no encoder changes such a run. It
// searches for all runs in one pass, with the tables of Wu and Manber.
type prefilter struct {
	all   [][]byte
	least int     // length of the shortest run
	skip  []uint8 // bytes to skip, by the hash of three bytes
}

const blockLen = 3 // bytes

func newPrefilter(forms []string) prefilter {
	var a prefilter
	for _, form := range forms {
		a.all = append(a.all, longestRun(form))
	}
	slices.SortFunc(a.all, func(x, y []byte) int { return len(x) - len(y) })
	var kept [][]byte
	for _, x := range a.all { // a text with the longer run also contains its part
		if !slices.ContainsFunc(kept, func(k []byte) bool { return bytes.Contains(x, k) }) {
			kept = append(kept, x)
		}
	}
	a.all = kept
	if len(kept) == 0 || len(kept[0]) < blockLen {
		return a
	}
	a.least = min(len(kept[0]), 255)
	a.skip = bytes.Repeat([]byte{uint8(a.least - blockLen + 1)}, 1<<12)
	for _, x := range kept {
		for end := blockLen; end <= a.least; end++ {
			h := blockHash(x[end-blockLen:])
			a.skip[h] = min(a.skip[h], uint8(a.least-end))
		}
	}
	return a
}

func blockHash(b []byte) uint32 {
	return (uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])) * 0x9e3779b1 >> 20
}

// mayHold reports whether raw contains one of the runs.
func (a *prefilter) mayHold(raw []byte) bool {
	if a.skip == nil {
		return slices.ContainsFunc(a.all, func(x []byte) bool { return bytes.Contains(raw, x) })
	}
	for end := a.least; end <= len(raw); {
		if skip := a.skip[blockHash(raw[end-blockLen:end])]; skip > 0 {
			end += int(skip)
			continue
		}
		for _, x := range a.all {
			if bytes.HasPrefix(raw[end-a.least:], x) {
				return true
			}
		}
		end++
	}
	return false
}

// longestRun returns the longest run of letters and digits.
func longestRun(form string) []byte {
	var longest string
	for _, run := range strings.FieldsFunc(form, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	return []byte(longest)
}
