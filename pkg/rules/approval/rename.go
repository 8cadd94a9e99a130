package approval

import "time"

// rename returns the record of a tool whose server has a new name. If the definition is unchanged,
// the result is the record of the old name. Otherwise the tool waits, and keeps only "disabled" and
// its blocks.
func rename(d Observation) Record {
	r := *d.From
	r.Server, r.Tool, r.Kind = d.ID.Server, d.ID.Name, d.ID.Kind
	r.Rev, r.UpdatedAt, r.Undo, r.Proposed = 0, time.Time{}, nil, nil
	if r.URL != "" && !SameServer(r.URL, d.URL) {
		r.ApprovedBefore, r.Loss, r.Endorsed, r.CurrentHash = nil, nil, Remembered{}, ""
	}
	if r.CurrentHash != d.Hash {
		r.ApprovedHash, r.Approved = "", nil
		r.CurrentHash, r.Current = d.Hash, d.Definition
		r.Tell = r.Tell && r.Disabled
	}
	r.URL, r.Release, r.Prior = d.URL, d.Release, nil
	r.State = r.derive()
	return r
}

// addLocks disables r if any of others is disabled, and adds the blocks of all of them.
func (r *Record) addLocks(others []*Record) {
	for _, o := range others {
		r.Disabled = r.Disabled || o.Disabled
		r.addBlocks(o.blocks())
	}
}

// restrict replaces r by the stricter combination of r and o, and reports whether the decision of r
// changed. r is an old record under the server's present name. o has a later decision, under
// another name of the server.
func (r *Record) restrict(o Record) bool {
	strict := stricter(*r, o)
	if strict.Disabled == r.Disabled && strict.ApprovedHash == r.ApprovedHash &&
		len(strict.Blocked) == len(r.Blocked) {
		return false
	}
	strict.ApprovedBefore, strict.Endorsed = o.ApprovedBefore, o.Endorsed
	strict.withdrawBlocked()
	*r = strict
	return true
}

// stricter returns r restricted by o. The result is disabled if either is, approved only at a hash
// that both approve, and has the blocks of both.
func stricter(r, o Record) Record {
	r.Proposed, r.Prior = nil, nil
	if r.ApprovedHash != o.ApprovedHash {
		r.ApprovedHash, r.Approved = "", nil
	}
	r.addBlocks(r.blocks())
	r.addLocks([]*Record{&o})
	r.State = r.derive()
	return r
}
