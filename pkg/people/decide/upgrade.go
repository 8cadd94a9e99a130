package decide

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// ActionCarry approves a definition that was approved in another version of the same package. The
// audit has the action of a normal approval, and names both versions.
const ActionCarry = "carry"

// An Upgrade is a server that runs another version of the same package, with the definitions that
// wait only because of the new version.
type Upgrade struct {
	Server string   `json:"server"`
	Before []string `json:"before" nullable:"false" doc:"versions in which these definitions were approved"`
	Now    string   `json:"now" doc:"the version that the gateway starts"`
	Tools  []Row    `json:"tools" nullable:"false" doc:"tools, prompts and resources whose definition equals the approved one"`
}

// upgrades returns the servers that match f and hasServer and that run another version of their
// package. It logs and skips a server whose records cannot be read; the list still has that
// server's waiting items.
func (d *Service) upgrades(ctx context.Context, v *state.View, f Filter, hasServer func(server string) bool) (out []Upgrade) {
	for _, s := range v.Servers() {
		name := s.Config.Name
		if s.Config.Command == nil || f.Server != "" && f.Server != name || hasServer != nil && !hasServer(name) ||
			!waits(v, s.First, s.Tools) && !waits(v, s.FirstItem, s.Items) {
			continue
		}
		up, err := d.upgrade(ctx, v, s, f)
		if err != nil {
			d.o.Log.LogAttrs(ctx, slog.LevelError, "approval records not read",
				slog.String("server", s.Config.Name), slog.Any("error", err))
		}
		if len(up.Tools) > 0 {
			out = append(out, up)
		}
	}
	return out
}

// waits reports whether a new definition waits among the n items from first on.
func waits(v *state.View, first, n int) bool {
	for i := first; i < first+n; i++ {
		if v.Status(i) == lock.PendingApproval && v.ApprovalState(i) == approval.Pending {
			return true
		}
	}
	return false
}

// upgrade returns the definitions of a server that wait only because of its new version.
func (d *Service) upgrade(ctx context.Context, v *state.View, s state.Server, f Filter) (Upgrade, error) {
	up := Upgrade{Server: s.Config.Name}
	_, up.Now = s.Config.Command.Release()
	records, err := d.approvals.Records(ctx, up.Server)
	if err != nil {
		return up, err
	}
	for _, r := range records {
		before, ok := r.Carryable()
		i, listed := v.Find(r.ID())
		if !ok || r.URL != s.Config.URL || !listed || v.Status(i) != lock.PendingApproval ||
			v.Tool(i).Definition.Hash != r.CurrentHash {
			continue
		}
		if !slices.Contains(up.Before, before) {
			up.Before = append(up.Before, before)
		}
		up.Tools = append(up.Tools, d.rowOf(ctx, v, i, &r, f))
	}
	return up, nil
}

// carryNote returns the note in the audit of an approval that is carried over.
func carryNote(r *approval.Record, note string) string {
	s := "approved in " + r.Prior.Version + ", the same definition in " + r.Release.Version
	if note != "" {
		s += ": " + note
	}
	return strings.ToValidUTF8(s[:min(len(s), approval.MaxNote)], "")
}
