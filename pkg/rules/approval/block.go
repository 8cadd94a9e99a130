package approval

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// block returns the block of the definition with the hash, if r has one.
func (r Record) block(hash tool.Hash) (Remembered, bool) {
	i := slices.IndexFunc(r.Blocked, func(m Remembered) bool { return m.Hash == hash })
	if i < 0 || hash == "" {
		return Remembered{}, false
	}
	return r.Blocked[i], true
}

// IsBlocked reports whether the definition with the hash is blocked.
func (r Record) IsBlocked(hash tool.Hash) bool {
	return slices.ContainsFunc(r.blocks(), func(m Remembered) bool { return m.Hash == hash && hash != "" })
}

// blocks returns the blocked definitions. A record from a catalog of an earlier version has no
// list, but says whether its current definition is blocked.
func (r Record) blocks() []Remembered {
	if _, listed := r.block(r.CurrentHash); listed || r.State != Blocked || r.CurrentHash == "" {
		return r.Blocked
	}
	return append([]Remembered{newBlock(r.CurrentHash, Author{Actor: r.By, Note: r.Note}, r.At)}, r.Blocked...)
}

// addBlocks adds blocks. If the record has no room for all of them, it disables the tool, so that
// a definition whose block is left out cannot be called.
func (r *Record) addBlocks(more []Remembered) {
	all := slices.Concat(more, r.Blocked)
	slices.SortStableFunc(all, func(a, b Remembered) int { return b.At.Compare(a.At) })
	var kept []Remembered
	for _, m := range all {
		if !slices.ContainsFunc(kept, func(k Remembered) bool { return k.Hash == m.Hash }) {
			kept = append(kept, m)
		}
	}
	if len(kept) > maxRemembered {
		kept, r.Disabled = kept[:maxRemembered], true
	}
	r.Blocked = kept
	r.withdrawBlocked()
}

// withdrawBlocked withdraws every approval of a blocked definition.
func (r *Record) withdrawBlocked() {
	if _, blocked := r.block(r.ApprovedHash); blocked {
		r.ApprovedHash, r.Approved = "", nil
	}
	if _, blocked := r.block(r.Endorsed.Hash); blocked {
		r.Endorsed = Remembered{}
	}
	for _, m := range r.Blocked {
		r.ApprovedBefore = without(r.ApprovedBefore, m.Hash)
	}
}

// without returns the decisions except those with the hash.
func without(all []Remembered, hash tool.Hash) []Remembered {
	is := func(m Remembered) bool { return m.Hash == hash }
	if !slices.ContainsFunc(all, is) {
		return all
	}
	if all = slices.DeleteFunc(slices.Clone(all), is); len(all) == 0 {
		return nil
	}
	return all
}
