package state

import "github.com/portcullis-mcp/portcullis/pkg/rules/lock"

// Facts returns the facts that decide the status of the visible item i, as of the state.
func (v *View) Facts(i int) lock.Facts {
	d := &v.r.decisions[i]
	return facts(v.enabled(i), v.Verdict(i), v.granted(i), d.userDisabled, d.approved)
}
