package approval

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Release is the version of a package that a server starts which is a program.
type Release struct {
	URL     string `json:"url,omitempty"`     // that of the server; an older program may have moved the record since
	Family  string `json:"family,omitempty"`  // the same for all versions of one package, started in one way
	Version string `json:"version,omitempty"` // the package with its version: "x@1.2.3"
}

// A PriorApproval is what was approved while the server was another version of the same package. It
// opens nothing: a person may say that it holds for the version of now, too.
type PriorApproval struct {
	Hash    tool.Hash `json:"hash"`
	Version string    `json:"version"` // of the package then
	URL     string    `json:"url"`     // of the server of now: at another one it says nothing
	At      time.Time `json:"at"`      // who decided later has seen more
}

// Carryable returns in which version of the server's package the current definition was approved, if a
// person may approve it again for that reason: it waits, and nobody has decided about it since, other
// than as the first of two people.
func (r Record) Carryable() (version string, ok bool) {
	p := r.Prior
	if p == nil || p.URL != r.URL || p.Hash != r.CurrentHash || r.derive() != Pending || r.Disabled || r.Lost != nil {
		return "", false
	}
	decided := r.At.After(p.At) && (r.Proposed == nil || r.Proposed.Hash != r.CurrentHash)
	return p.Version, !decided
}

// prior returns what stays known of the approval of r when its server is what d says: nil unless that is
// another version of the same package.
func (r *Record) prior(d Seen) *PriorApproval {
	was := r.Release
	switch {
	case was.Family == "" || was.Family != d.Release.Family || was.URL != r.URL || r.Lost != nil || r.isProposalAlone():
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

// release records the faults of what is known of versions.
func (c *checker) release(r Release, p *PriorApproval) {
	c.text("url of a release", r.URL, 0, maxURL)
	c.text("family of a release", r.Family, 0, MaxName)
	c.text("version of a release", r.Version, 0, MaxName)
	if p != nil {
		c.text("url of an earlier approval", p.URL, 0, maxURL)
		c.text("version of an earlier approval", p.Version, 0, MaxName)
	}
}
