package state

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// A Condition says in one word whether requests are served as they should be.
type Condition string

// The conditions, from the best to the worst.
const (
	OK       Condition = "ok"
	Degraded Condition = "degraded" // requests are served; something is older, refused or missing
	Failing  Condition = "failing"  // no tool can be called
)

// A Reason is one thing that keeps a gateway from being OK, for its operator.
type Reason struct {
	Code      string    // stable: config_refused, servers_down, …
	Condition Condition // what it makes of the gateway
	Message   string    // what is the matter, and what follows from it
	Action    string    // who does what next
	Since     time.Time // when it began or, if that is not known, was first seen by this process
}

// missedSyncs is how many syncs may be missed before the catalog counts as old.
const missedSyncs = 3

// Condition returns the worst of the reasons' conditions; [OK] without any.
func (h Health) Condition() Condition {
	if reasons := h.Reasons(); len(reasons) > 0 {
		return reasons[0].Condition
	}
	return OK
}

// Reasons returns everything that is wrong, the worst first. It is pure: the same facts
// give the same reasons. The zero Health, of which nothing was read, is [Failing].
//
// A new fact has its place here: a field of [Health], and the reason that it makes.
func (h Health) Reasons() []Reason {
	out := slices.Concat(
		h.configReasons(), h.policyReasons(), h.catalogReasons(), h.approvalReasons(), h.syncReasons(), h.serverReasons(),
	)
	for i, r := range out {
		if at, ok := h.first[r.Code]; ok && r.Since.IsZero() {
			out[i].Since = at
		}
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return severity(a) - severity(b) })
	return out
}

func severity(r Reason) int {
	if r.Condition == Failing {
		return 0
	}
	return 1
}

// firstSeen returns when each reason of now was seen first: by the Health before, or now.
func firstSeen(before, now Health) map[string]time.Time {
	var first map[string]time.Time
	for _, r := range now.Reasons() {
		if !r.Since.IsZero() {
			continue
		}
		if first == nil {
			first = map[string]time.Time{}
		}
		if at, ok := before.first[r.Code]; ok {
			first[r.Code] = at
		} else {
			first[r.Code] = now.At
		}
	}
	return first
}

// either is Degraded if something older is in use, else Failing.
func either(p Part) Condition {
	if p.InUse {
		return Degraded
	}
	return Failing
}

const seeLog = "The operator looks at the log of the gateway, and whether its store can be reached."

func (h Health) configReasons() (out []Reason) {
	p := h.Config
	if h.Selection != nil {
		out = append(out, Reason{
			Code: "selection_unusable", Condition: Failing,
			Message: `What "tools" in ` + config.Key + " selects cannot be used with the tools that the servers list, so no request is answered.",
			Action:  `The operator mends "tools" in the file. The fault: ` + h.Selection.Error() + ".",
		})
	}
	if p.Err == nil && p.InUse {
		return out
	}
	r := Reason{Condition: either(p)}
	use := "The one that was read last stays in use."
	if !p.InUse {
		use = "None was read before, so there are no tools."
	}
	switch faults, bad := errors.AsType[config.Faults](p.Err); {
	case bad:
		r.Code, r.Message = "config_refused", config.Key+" has "+text.Count(len(faults), "fault")+" and is not used. "+use
		r.Action = "The operator mends the file; it is taken as soon as it is stored."
	case missing(p.Err) && p.InUse:
		r.Code, r.Message = "config_gone", config.Key+" is gone. "+use
		r.Action = `The operator puts the file back. To have no servers, store one that holds {"mcpServers": {}}.`
	case missing(p.Err):
		r.Code, r.Message = "config_missing", "There is no "+config.Key+", so there are no servers and no tools."
		r.Action = "The operator stores one; it is taken as soon as it is stored."
	default:
		r.Code, r.Message, r.Action = "config_unread", config.Key+" cannot be read. "+use, seeLog
	}
	return append(out, r)
}

func (h Health) policyReasons() []Reason {
	p := h.Policy
	if p.Err == nil {
		return nil
	}
	r := Reason{Condition: either(p)}
	use := "The one that was read last stays in use."
	if !p.InUse {
		use = "None was read before, so every tool is locked as disabled_unknown."
	}
	switch faults, bad := errors.AsType[config.Faults](p.Err); {
	case bad:
		r.Code, r.Message = "policy_refused", policy.Key+" has "+text.Count(len(faults), "fault")+" and is not used. "+use
		r.Action = "The operator mends the file; it is taken as soon as it is stored."
	case missing(p.Err):
		r.Code, r.Message = "policy_gone", policy.Key+" is gone. "+use
		r.Action = "The operator puts the file back. To deny nothing, store an empty file."
	default:
		r.Code, r.Message, r.Action = "policy_unread", policy.Key+" cannot be read. "+use, seeLog
	}
	return []Reason{r}
}

func (h Health) catalogReasons() []Reason {
	p := h.Catalog
	if p.Err == nil || missing(p.Err) && !h.Config.InUse { // without a config there is nothing to sync
		return nil
	}
	r := Reason{Condition: either(p)}
	use := "The one that was read last stays in use."
	if !p.InUse {
		use = "None was read before, so no tool is known."
	}
	switch {
	case missing(p.Err) && !p.InUse:
		r.Code, r.Message = "catalog_missing", "No sync has worked yet, so no tool is known."
		r.Action = "Wait for the first sync. If this lasts, the operator looks at the log of the sync."
	case errors.Is(p.Err, catalog.ErrUnusable):
		r.Code, r.Message = "catalog_unusable", "The stored tool catalog is damaged or of another version. "+use
		r.Action = "The next sync replaces it. If this lasts, the operator looks at the log of the sync."
	default:
		r.Code, r.Message, r.Action = "catalog_unread", "The stored tool catalog cannot be read. "+use, seeLog
	}
	return []Reason{r}
}

func (h Health) approvalReasons() (out []Reason) {
	switch {
	case h.Expired:
		out = append(out, Reason{
			Code: "approvals_unread", Condition: Failing, Action: seeLog,
			Message: "The approval records have not been readable for so long that tools are locked as disabled_unknown. Every call is refused.",
		})
	case h.Approvals.Err != nil:
		out = append(out, Reason{
			Code: "approvals_unread", Condition: Degraded, Action: seeLog,
			Message: "The approval records cannot be read. Searches go by what was read last; calls are refused.",
		})
	}
	if h.Lost {
		out = append(out, Reason{
			Code: "approvals_lost", Condition: Degraded,
			Message: "The approval store lost records that the tool catalog knows, or was set back to an older state. Tools are shown as disabled_unknown; a call is let through only if neither the store nor the catalog locks the tool.",
			Action:  "The next sync puts the records back. If this lasts, the operator looks at the log of the sync.",
		})
	}
	if h.Restored > 0 {
		out = append(out, Reason{
			Code: "approvals_restored", Condition: Degraded,
			Message: text.Count(h.Restored, "approval record") + " had been lost from the store and came back from the tool catalog. Where the store had another version, the stricter of the two holds.",
			Action: "An admin says which holds: POST /admin/approvals/restore for what the catalog knew, POST /admin/approvals/accept for what the store had (what it lacked waits for approval). " +
				"On one machine: stop the gateway and run portcullis approvals restore --dir DIR, or accept in place of restore.",
		})
	}
	if n := len(h.Rebuilt); n > 0 {
		out = append(out, Reason{
			Code: "tools_rebuilt", Condition: Degraded,
			Message: "The stored tool catalog could not be used, and " + text.Count(n, "server") + " did not load since: " + text.List(h.Rebuilt, maxServersNamed) +
				". Their tools are those of the approval records, locked as those say.",
			Action: "The operator looks at /admin/servers, which says how each one failed. The tools are replaced when the server loads.",
		})
	}
	return out
}

func (h Health) syncReasons() []Reason {
	s := h.Sync
	if f := s.Failed; f != nil && f.Reason != catalog.FailedConfig {
		r := Reason{Code: "sync_failed", Condition: Degraded, Since: f.Since}
		why := "a store could not be read or written"
		r.Action = "The operator looks at the log of the sync, and whether the stores can be reached."
		switch f.Reason {
		case catalog.FailedRequired:
			why = "a required server did not load (" + strings.Join(f.Servers, ", ") + ")"
			r.Action = `The operator mends that server, or takes "required" from it in ` + config.Key + "."
		case catalog.FailedTime:
			why = "it ran out of time"
			r.Action = "The operator looks in the log of the sync for servers that hang, and disables them."
		case catalog.FailedDisk:
			why = "there is no space left on the disk"
			r.Action = "The operator frees space; the next sync goes on by itself."
		}
		r.Message = "The last sync failed: " + why + ". The tools are those of the last sync that worked."
		if s.At.IsZero() {
			r.Message = "The last sync failed: " + why + ". None has worked yet."
		}
		return []Reason{r}
	}
	if age := h.At.Sub(s.At); s.Every > 0 && !s.At.IsZero() && age > missedSyncs*s.Every {
		return []Reason{{
			Code: "catalog_old", Condition: Degraded, Since: s.At,
			Message: "No sync has ended for more than " + minutes(missedSyncs*s.Every) + ", and one is due every " + minutes(s.Every) +
				". The tools are those of the last one.",
			Action: "The operator looks whether syncs are started, and at their log.",
		}}
	}
	return nil
}

func minutes(d time.Duration) string { return text.Count(int((d+time.Minute-1)/time.Minute), "minute") }

// maxServersNamed is how many servers a reason names.
const maxServersNamed = 5

func (h Health) serverReasons() (out []Reason) {
	if !h.Config.InUse || !h.Catalog.InUse {
		return nil
	}
	s := h.Servers
	r := Reason{Condition: Degraded}
	switch {
	case s.Configured == 0:
		r.Code, r.Message = "no_servers", config.Key+" names no server, so there are no tools."
		r.Action = `The operator adds a server to "mcpServers".`
	case s.Enabled == 0:
		r.Code, r.Message = "servers_off", "No server is switched on ("+text.Count(s.Configured, "server")+" configured), so no tool is callable."
		r.Action = `The operator sets "enabled" of a server to true.`
	case s.Available == 0 && s.Tried == s.Enabled:
		r.Code, r.Message = "servers_down", "No server could be loaded ("+text.Count(s.Enabled, "server")+" switched on). "
		if s.Tools > 0 {
			r.Message += "Their last known tools are found, and calls of them fail."
		} else {
			r.Message += "None of their tools is known."
		}
		r.Action = "The operator looks at /admin/servers, which says how each one failed."
	case s.Tools == 0:
		r.Code, r.Message = "catalog_empty", "The servers list no tool ("+text.Count(s.Available, "server")+" loaded)."
		r.Action = "The operator looks at /admin/servers, and at what the servers list."
	}
	if r.Code != "" {
		out = append(out, r)
	}
	if n := len(s.Refused); n > 0 {
		out = append(out, Reason{
			Code: "tools_refused", Condition: Degraded,
			Message: text.Count(n, "server") + " listed tools that are not taken: " + text.List(s.Refused, maxServersNamed) + ".",
			Action:  "The operator looks at /admin/servers, which names each tool and says why; the server's owner mends it.",
		})
	}
	return out
}
