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

// missingIssuer returns a fault if the config requires two people, but people cannot sign in with
// an issuer here.
func (d *Service) missingIssuer(st *state.State) (state.Reason, bool) {
	d.fourEyes.Lock()
	defer d.fourEyes.Unlock()
	if d.o.Issuer || st.Config == nil || st.Config.Review.FourEyes == "off" {
		d.fourEyes.since = time.Time{}
		return state.Reason{}, false
	}
	if d.fourEyes.since.IsZero() {
		d.fourEyes.since = d.o.Now().UTC()
	}
	what := "no destructive tool"
	if st.Config.Review.FourEyes == "all" {
		what = "nothing"
	}
	return state.Reason{
		Code: "four_eyes_without_issuer", Condition: state.Degraded, Since: d.fourEyes.since,
		Message: "review.four_eyes needs two people who sign in with an issuer, but this gateway " +
			"has no such sign-in: " + what + " can be approved",
		Action: "The operator sets up the sign-in with an issuer, or removes review.four_eyes " +
			"from mcp_config.json.",
	}, true
}

// allReasons returns all problems of the gateway, the worst first, and the resulting condition.
func (d *Service) allReasons(
	ctx context.Context, st *state.State,
) (state.Condition, []state.Reason) {
	reasons := append([]state.Reason{}, st.Health.Reasons()...)
	for _, r := range d.setupReasons(ctx, st) {
		at := slices.IndexFunc(reasons, func(r state.Reason) bool { return r.Condition == state.OK })
		if at < 0 || r.Condition == state.OK {
			at = len(reasons)
		}
		reasons = slices.Insert(reasons, at, r)
	}
	if len(reasons) == 0 {
		return state.OK, reasons
	}
	return reasons[0].Condition, reasons
}

// setupReasons returns the problems in the gateway's setup that are not faults of a file.
func (d *Service) setupReasons(ctx context.Context, st *state.State) (out []state.Reason) {
	if r, ok := d.missingIssuer(st); ok {
		out = append(out, r)
	}
	if r, ok := d.deadAlarms(ctx); ok {
		out = append(out, r)
	}
	return out
}

// Notices returns the problems in the gateway's setup that each page should show.
func (d *Service) Notices(ctx context.Context) []state.Reason {
	return slices.DeleteFunc(d.setupReasons(ctx, d.states.Load(ctx)), func(r state.Reason) bool {
		return r.Condition == state.OK
	})
}

// asOnePerson wraps a reconciler so that it approves nothing that takes two people. Such a
// definition waits for approval.
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

// definitionAt returns the definition with the hash. If its text is not stored, definitionAt
// returns a definition without annotations. Such a definition counts as destructive, because the
// real annotations are unknown.
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
