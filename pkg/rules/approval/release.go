package approval

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Release is the package version of a server that is a local program.
type Release struct {
	// URL is the server's URL. If an older gateway has changed the record's URL later, the two
	// differ.
	URL     string `json:"url,omitempty"`
	Family  string `json:"family,omitempty"`  // equal for two commands that differ only in the version
	Version string `json:"version,omitempty"` // the package with its version: "x@1.2.3"
}

// A PriorApproval is an approval at another version of the same package. It unlocks nothing, but a
// person may approve the same definition for the current version.
type PriorApproval struct {
	Hash    tool.Hash `json:"hash"`
	Version string    `json:"version"` // version of the package that was approved
	URL     string    `json:"url"`     // of the current server; must be the record's URL
	At      time.Time `json:"at"`      // time of the approval or of a later decision
}

// Carryable reports whether a person may approve the current definition because the same definition
// was approved for another version of the server's package. It returns that version. ok is true if
// the item is pending, and if nobody has decided about the item after that approval. A proposal by
// the first of two people is not such a decision.
func (r Record) Carryable() (version string, ok bool) {
	p := r.Prior
	if p == nil || p.URL != r.URL || p.Hash != r.CurrentHash || r.derive() != Pending || r.Disabled || r.Loss != nil {
		return "", false
	}
	decided := r.At.After(p.At) && (r.Proposed == nil || r.Proposed.Hash != r.CurrentHash)
	return p.Version, !decided
}

// prior returns the approval that the record keeps as Prior when its server changes to the server
// in d. It returns nil unless that server is another version of the same package.
func (r *Record) prior(d Observation) *PriorApproval {
	was := r.Release
	switch {
	case was.Family == "" || was.Family != d.Release.Family || was.URL != r.URL || r.Loss != nil || r.isProposalAlone():
		return nil
	case r.ApprovedHash != "":
		at := stamp(d.Now)
		if r.At.After(at) {
			at = r.At
		}
		return &PriorApproval{Hash: r.ApprovedHash, Version: was.Version, URL: d.URL, At: at}
	case r.Prior != nil && r.Prior.URL == r.URL:
		next := *r.Prior
		next.URL = d.URL
		return &next
	}
	return nil
}

// release adds the faults of a release and of a prior approval to the checker's faults.
func (c *checker) release(r Release, p *PriorApproval) {
	c.text("url of a release", r.URL, 0, maxURL)
	c.text("family of a release", r.Family, 0, MaxName)
	c.text("version of a release", r.Version, 0, MaxName)
	if p != nil {
		c.text("url of an earlier approval", p.URL, 0, maxURL)
		c.text("version of an earlier approval", p.Version, 0, MaxName)
	}
}
