package decide

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// missingIssuer returns the fault that the config requires two people and nobody can sign in as one
// of them.
func (d *Service) missingIssuer(st *state.State) (state.Reason, bool) {
	d.two.Lock()
	defer d.two.Unlock()
	if d.o.Issuer || st.Config == nil || st.Config.Review.FourEyes == "off" {
		d.two.since = time.Time{}
		return state.Reason{}, false
	}
	if d.two.since.IsZero() {
		d.two.since = d.o.Now().UTC()
	}
	what := "no destructive tool"
	if st.Config.Review.FourEyes == "all" {
		what = "nothing"
	}
	return state.Reason{
		Code: "four_eyes_without_issuer", Condition: state.Degraded, Since: d.two.since,
		Message: "review.four_eyes asks for two people who sign in with an issuer, " +
			"and nobody signs in with one here: " + what + " can be approved",
		Action: "The operator sets up the sign-in with an issuer, or takes review.four_eyes out of mcp_config.json.",
	}, true
}

// allReasons returns everything that is wrong with the gateway, worst first, and the resulting
// condition.
func (d *Service) allReasons(st *state.State) (state.Condition, []state.Reason) {
	condition, reasons := st.Health.Condition(), append([]state.Reason{}, st.Health.Reasons()...)
	if r, ok := d.missingIssuer(st); ok {
		at := slices.IndexFunc(reasons, func(r state.Reason) bool { return r.Condition == state.OK })
		if at < 0 {
			at = len(reasons)
		}
		if reasons = slices.Insert(reasons, at, r); condition == state.OK {
			condition = r.Condition
		}
	}
	return condition, reasons
}

// Notices returns the problems in the gateway's setup that no file mentions.
func (d *Service) Notices(ctx context.Context) (out []state.Reason) {
	if r, ok := d.missingIssuer(d.states.Load(ctx)); ok {
		out = append(out, r)
	}
	return out
}

// asOnePerson wraps how for one person: what takes two people to approve is not approved, and waits.
func asOnePerson(v *state.View, how catalog.Reconciler) catalog.Reconciler {
	return func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
		next, entry, err := how(r, actor, now)
		gains := func(now, was tool.Hash) bool {
			return now != "" && now != was && v.NeedsFourEyes(r.Server, definitionAt(&next, now))
		}
		if err != nil || !gains(next.ApprovedHash, r.ApprovedHash) && !gains(next.Endorsed.Hash, r.Endorsed.Hash) {
			return next, entry, err
		}
		entry.Note = strings.TrimSuffix("not approved: this takes two people; "+entry.Note, "; ")
		return approval.WithoutApproval(r, next), entry, nil
	}
}

// definitionAt returns the definition with the hash. If its text is gone, definitionAt returns one
// without annotations, which counts as destructive, because the definition could be any.
func definitionAt(r *approval.Record, hash tool.Hash) tool.Definition {
	switch {
	case hash == r.CurrentHash:
		return tool.KeptItem(r.Kind, r.Current)
	case hash == r.ApprovedHash && len(r.Approved) > 0:
		return tool.KeptItem(r.Kind, r.Approved)
	}
	return tool.Definition{Kind: r.Kind}
}

// proposedOf returns who approved the current definition as the first of two people; nil if nobody
// did.
func proposedOf(r *approval.Record) *Verdict {
	if p := r.Proposed; p != nil && p.Hash == r.CurrentHash {
		return &Verdict{Hash: p.Hash, Verdict: "proposed", By: p.By, At: p.At, Note: p.Note}
	}
	return nil
}
