package approval

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Release is the package version of a server that is a local program.
type Release struct {
	URL     string `json:"url,omitempty"`     // of the server; an older program may have moved the record since
	Family  string `json:"family,omitempty"`  // the same for all versions of one package, started in one way
	Version string `json:"version,omitempty"` // the package with its version: "x@1.2.3"
}

// A PriorApproval is an approval at another version of the same package. It unlocks nothing, but a
// person may approve the same definition for the current version.
type PriorApproval struct {
	Hash    tool.Hash `json:"hash"`
	Version string    `json:"version"` // of the package at the approval
	URL     string    `json:"url"`     // of the current server; at another URL this approval is void
	At      time.Time `json:"at"`      // time of the approval or of a later decision
}

// Carryable returns the version of the server's package in which the current definition was
// approved. ok reports whether a person may approve it again for that reason: it waits, and nobody
// has decided about it since, except as the first of two people.
func (r Record) Carryable() (version string, ok bool) {
	p := r.Prior
	if p == nil || p.URL != r.URL || p.Hash != r.CurrentHash || r.derive() != Pending || r.Disabled || r.Loss != nil {
		return "", false
	}
	decided := r.At.After(p.At) && (r.Proposed == nil || r.Proposed.Hash != r.CurrentHash)
	return p.Version, !decided
}

// prior returns the approval of r that remains known for the server in d. It returns nil unless
// the server is another version of the same package.
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

// release records the faults of a release and of a prior approval.
func (c *checker) release(r Release, p *PriorApproval) {
	c.text("url of a release", r.URL, 0, maxURL)
	c.text("family of a release", r.Family, 0, MaxName)
	c.text("version of a release", r.Version, 0, MaxName)
	if p != nil {
		c.text("url of an earlier approval", p.URL, 0, maxURL)
		c.text("version of an earlier approval", p.Version, 0, MaxName)
	}
}
