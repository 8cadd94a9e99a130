package state

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// A Condition says in one word how well a gateway works.
type Condition string

// The conditions, from the best to the worst.
const (
	OK       Condition = "ok"       // all or most of the gateway works
	Degraded Condition = "degraded" // requests are served; something is old, refused or missing
	Failing  Condition = "failing"  // no tool can be called
)

// A Reason is one problem, for the operator of the gateway.
type Reason struct {
	Code      string    `json:"code" doc:"stable: config_refused, servers_down, …"`
	Condition Condition `json:"status" enum:"ok,degraded,failing" doc:"effect on the gateway"`
	Message   string    `json:"message" doc:"the problem, and its effect"`
	Action    string    `json:"action" doc:"the next step, and who takes it"`
	Since     time.Time `json:"since,omitzero" doc:"when it began or, if that is not known, was first seen by this process"`
}

// missedSyncs is how many missed syncs make the catalog old.
const missedSyncs = 3

// Condition returns the worst of the reasons' conditions, or [OK] without reasons.
func (h Health) Condition() Condition {
	if reasons := h.Reasons(); len(reasons) > 0 {
		return reasons[0].Condition
	}
	return OK
}

// Reasons returns all problems, the worst first. It is pure: the same facts give the same reasons.
// The zero Health, without any read, is [Failing].
//
// To add a fact, add a field to [Health] and its reason here.
func (h Health) Reasons() []Reason {
	var out reasons
	h.config(&out)
	h.policy(&out)
	h.catalog(&out)
	h.approvals(&out)
	h.sync(&out)
	h.servers(&out)
	h.audit(&out)
	h.processes(&out)
	h.capacity(&out)
	for i, r := range out {
		if at, ok := h.first[r.Code]; ok && r.Since.IsZero() {
			out[i].Since = at
		}
	}
	order := []Condition{Failing, Degraded, OK}
	slices.SortStableFunc(out, func(a, b Reason) int {
		return slices.Index(order, a.Condition) - slices.Index(order, b.Condition)
	})
	return out
}

// isShort reports whether descriptors are missing, or were missing recently.
func (h Health) isShort() bool {
	for _, p := range []Part{h.Config, h.Policy, h.Catalog, h.Approvals} {
		if capacity.IsDescriptors(p.Err) {
			return true
		}
	}
	return h.Capacity != nil && h.Capacity.IsShort
}

func (h Health) capacity(rs *reasons) {
	if h.isShort() {
		limit := ""
		if h.Capacity != nil {
			limit = fmt.Sprintf(" (the limit is %d)", h.Capacity.Descriptors)
		}
		rs.add("no_descriptors", Degraded, "The gateway cannot open more files, connections and programs at the moment"+limit+". Calls that need one of these fail, and can be repeated.",
			"Raise the limit where the gateway is started: ulimit -n, or LimitNOFILE of systemd. The shortage ends when connections or programs end.")
	}
	if c := h.Capacity; c != nil && c.IsRefusing {
		rs.add("overloaded", Degraded, fmt.Sprintf("The gateway refuses requests with 503, because too many are in flight: at most %d, on %d connections. It has refused %d since its start.",
			c.MaxRequests, c.MaxConns, c.Refused),
			"/admin/usage says which agents call most: stop an agent that repeats itself. To allow more, set GOMEMLIMIT, of which requests get a quarter, or raise ulimit -n.")
	}
}

func (h Health) audit(rs *reasons) {
	switch {
	case errors.Is(h.Audit, audit.ErrLimit) && h.AuditRequired:
		rs.add("audit_full", Failing, "The audit has reached audit.max_bytes ("+size(h.AuditLimit)+"), and the config requires it: every call is refused.", makeRoom)
	case errors.Is(h.Audit, audit.ErrLimit):
		rs.add("audit_full", Degraded, "The audit of this day has reached audit.max_bytes ("+size(h.AuditLimit)+"): calls continue, but their audit lines are lost until tomorrow (UTC).", makeRoom)
	case h.Audit == nil && h.AuditLimit > 0 && h.AuditBytes > h.AuditLimit/5*4:
		effect := "the oldest day is removed, with a note in the audit."
		if h.AuditRequired {
			effect = "every call is refused."
		}
		rs.add("audit_nearly_full", Degraded, "The audit has "+size(h.AuditBytes)+" of at most "+size(h.AuditLimit)+" (audit.max_bytes). At the limit "+effect, makeRoom)
	case h.Audit == nil:
	case h.AuditRequired:
		rs.add("audit_unwritten", Failing, "The audit cannot be written, and the config requires it: every call is refused.", seeAudit)
	default:
		rs.add("audit_unwritten", Degraded, "The audit cannot be written: calls continue, but their audit lines are lost.", seeAudit)
	}
}

const makeRoom = "Move the oldest files out of the folder audit, raise audit.max_bytes, or lower audit.days. /admin/usage says which agents call most."

// size formats a number of bytes.
func size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

const seeAudit = "The gateway's log says why. Make room on the disk, or make the folder audit " +
	"writable. The gateway then continues automatically."

func (h Health) processes(rs *reasons) {
	if h.FullSince.IsZero() {
		return
	}
	rs.add("processes_full", Degraded,
		"All "+strconv.Itoa(h.Processes)+" processes of servers that are programs are in use. "+
			"Calls that need one more are refused.",
		"Wait until calls end, or stop the agent that makes them: portcullis stop. If this comes back, "+
			"set \"session\": \"shared\" on servers that keep nothing for one agent, or lower gateway.programs.max_per_agent.")
	(*rs)[len(*rs)-1].Since = h.FullSince
}

// reasons are the reasons found so far.
type reasons []Reason

func (rs *reasons) add(code string, c Condition, message, action string) {
	*rs = append(*rs, Reason{Code: code, Condition: c, Message: message, Action: action})
}

// firstSeen returns when each reason of now was first seen: the time from before, or now.
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

// Actions of an operator for most reasons.
const (
	seeStore = "Look in the gateway's log, and check that its store can be reached."
	seeSync  = " If this lasts, look in the log of the sync."
	seeAdmin = "/admin/servers says why each server is not available."
)

// inUse returns the condition of a part, and a text about the version in use instead of the stored
// version. none is the consequence if no version is in use.
func inUse(p Part, none string) (c Condition, text string) {
	if p.InUse {
		return Degraded, " The last good version stays in use."
	}
	return Failing, " No earlier version is known, so " + none + "."
}

// file adds the reason why the gateway does not use the stored version of an operator's file. name
// begins the codes. none is the consequence if no version is in use. empty is the advice to an
// operator who wants no such file.
func (rs *reasons) file(name, key string, p Part, none, empty string) {
	c, use := inUse(p, none)
	if p.InUse && capacity.IsDescriptors(p.Err) {
		return // descriptors have their own reason
	}
	switch faults, bad := errors.AsType[config.Faults](p.Err); {
	case bad:
		rs.add(name+"_refused", c, key+" has "+text.Count(len(faults), "fault")+" and is not used."+use,
			"Fix the file. It takes effect once it is stored.")
	case missing(p.Err):
		rs.add(name+"_gone", c, key+" is gone."+use, "Put the file back. "+empty)
	default:
		rs.add(name+"_unread", c, key+" cannot be read."+use, seeStore)
	}
}

func (h Health) config(rs *reasons) {
	switch p := h.Config; {
	case p.Err == nil && p.InUse:
	case missing(p.Err) && !p.InUse:
		rs.add("config_missing", Failing, "There is no "+config.Key+", so there are no servers and no tools.",
			"Store the file. It takes effect once it is stored.")
	default:
		rs.file("config", config.Key, p, "there are no tools", `To have no servers, store {"mcpServers": {}}.`)
	}
}

func (h Health) policy(rs *reasons) {
	if h.Policy.Err != nil {
		rs.file("policy", policy.Key, h.Policy, "every tool is locked as disabled_unknown", "To deny nothing, store an empty file.")
	}
}

func (h Health) catalog(rs *reasons) {
	p := h.Catalog
	c, use := inUse(p, "there are no tools")
	lacks := c // until a sync ends
	if h.Sync.First {
		lacks = Degraded
	}
	switch {
	case p.Err == nil, missing(p.Err) && !h.Config.InUse, p.InUse && capacity.IsDescriptors(p.Err): // without a config there is nothing to sync
	case missing(p.Err) && !p.InUse:
		rs.add("catalog_missing", lacks, "No sync has succeeded yet, so no tool is known.", "Wait for the first sync."+seeSync)
	case errors.Is(p.Err, catalog.ErrNewer):
		rs.add("catalog_newer", c, "The stored tool catalog was made by a newer version of the program, and this version leaves it unchanged."+use,
			"Run the newer version again. To stay with this version, delete "+catalog.CurrentKey+": the next sync makes a new catalog from the servers and the approval records.")
	case errors.Is(p.Err, catalog.ErrUnusable):
		rs.add("catalog_unusable", lacks, "The stored tool catalog is damaged, or another version wrote it."+use, "The next sync replaces it."+seeSync)
	default:
		rs.add("catalog_unread", c, "The stored tool catalog cannot be read."+use, seeStore)
	}
	if h.Memory > 0 && h.MemoryNeeded > h.Memory {
		rs.add("memory_small", Degraded, fmt.Sprintf("The tool catalog has grown: the functions behind /mcp and /admin should have %d MB, and this one has %d MB. Without enough memory, Lambda ends them.",
			h.MemoryNeeded, h.Memory), fmt.Sprintf("Deploy the stack with MemorySize=%d or more.", h.MemoryNeeded))
	}
	if h.SyncMemory > 0 && h.SyncMemoryNeeded > h.SyncMemory {
		rs.add("sync_memory_small", Degraded,
			fmt.Sprintf("The tool catalog has grown: the sync function should have %d MB, and it has "+
				"%d MB. Without enough memory, Lambda ends it, and agents keep the last catalog.",
				h.SyncMemoryNeeded, h.SyncMemory),
			fmt.Sprintf("Deploy the stack with SyncMemorySize=%d or more.", h.SyncMemoryNeeded))
	}
}

func (h Health) approvals(rs *reasons) {
	switch {
	case h.Expired:
		rs.add("approvals_unread", Failing,
			"The gateway cannot read the approval records or the stops, and has no recent copy. "+
				"Tools are locked as disabled_unknown. Every call is refused.", seeStore)
	case h.Approvals.Err != nil:
		rs.add("approvals_unread", Degraded, "The approval records or the stops cannot be read. Searches use the last data that was read; calls are refused.", seeStore)
	}
	if h.Lost {
		rs.add("approvals_lost", Degraded,
			"The approval store lost records that the tool catalog knows, or was set back to an older state. "+
				"Tools are shown as disabled_unknown; a call goes through only if neither the store nor the catalog locks its tool.",
			"The next sync puts the records back."+seeSync)
	}
	if h.Restored > 0 {
		rs.add("approvals_restored", Degraded,
			text.Count(h.Restored, "approval record")+" had been lost from the store. "+
				"A sync restored the versions of the tool catalog. "+
				"Where the store had another version, the stricter of the two applies.",
			"Decide which version applies: /admin/config has a button for each, and the API POST /admin/approvals/restore for the catalog's version, "+
				"POST /admin/approvals/accept for the store's version (items that it lacked wait for approval). On one machine: stop the gateway and run portcullis restore --dir DIR, or portcullis approvals accept --dir DIR.")
	}
	if n := len(h.Forgotten); n > 0 {
		rs.add("approvals_gone", Degraded,
			"The approval store had no records, and the stored tool catalog could not be used. "+
				"The decisions of people about the items of "+
				text.Count(n, "server")+" are lost: "+text.List(h.Forgotten, maxServersNamed)+". Each item is locked until a person decides.",
			"If you have a copy of the store, restore it: portcullis restore FILE --dir DIR on one machine, the table of an earlier time on AWS. "+
				"Otherwise approve what agents may call, and decide about the other items as for approvals_restored.")
	}
	if n := len(h.Rebuilt); n > 0 {
		rs.add("tools_rebuilt", Degraded,
			"The stored tool catalog could not be used, and "+text.Count(n, "server")+" did not load since: "+text.List(h.Rebuilt, maxServersNamed)+
				". Their tools and locks come from the approval records.",
			seeAdmin+" The tools are replaced when the server loads.")
	}
}

func (h Health) sync(rs *reasons) {
	s := h.Sync
	f := s.Failed
	if f == nil || f.Reason == catalog.FailedConfig || f.Reason == catalog.FailedNewer {
		if age := h.At.Sub(s.At); s.Every > 0 && !s.At.IsZero() && age > missedSyncs*s.Every {
			rs.add("catalog_old", Degraded,
				"No sync has ended for more than "+minutes(missedSyncs*s.Every)+", and a sync is due every "+minutes(s.Every)+". The tools are from the last sync.",
				"Check that syncs are started, and look in their log.")
			(*rs)[len(*rs)-1].Since = s.At
		}
		return
	}
	why, action := "a store could not be read or written", "Look in the log of the sync, and check that the stores can be reached."
	switch f.Reason {
	case catalog.FailedRequired:
		why = "a required server did not load (" + strings.Join(f.Servers, ", ") + ")"
		action = `Fix that server, or remove "required" from it in ` + config.Key + "."
	case catalog.FailedTime:
		why, action = "it ran out of time", "Look in the log of the sync for servers that hang, and disable them."
	case catalog.FailedDisk:
		why, action = "there is no space left on the disk",
			"Free some space. The next sync starts automatically."
	}
	tools := ". The tools are from the last sync that succeeded."
	if s.At.IsZero() {
		tools = ". No sync has succeeded yet."
	}
	rs.add("sync_failed", Degraded, "The last sync failed: "+why+tools, action)
	(*rs)[len(*rs)-1].Since = f.Since
}

func minutes(d time.Duration) string { return text.Count(int((d+time.Minute-1)/time.Minute), "minute") }

// maxServersNamed is how many servers a reason names.
const maxServersNamed = 5

func (h Health) servers(rs *reasons) {
	if !h.Config.InUse || !h.Catalog.InUse {
		return
	}
	switch s := h.Servers; {
	case s.Configured == 0:
		rs.add("no_servers", Degraded, config.Key+" names no server, so there are no tools.",
			`Add a server to "mcpServers", or import the servers `+
				"of an MCP client: portcullis import.")
	case s.Enabled == 0:
		rs.add("servers_off", Degraded, "No server is enabled ("+text.Count(s.Configured, "server")+" configured), so no tool is callable.",
			`Set "enabled" of a server to true.`)
	case s.Available == 0 && s.Tried == s.Enabled:
		tools := "None of their tools is known."
		if s.Tools > 0 {
			tools = "Searches find the last known tools, but calls of these tools fail."
		}
		rs.add("servers_down", Degraded, "No server could be loaded ("+text.Count(s.Enabled, "server")+" enabled). "+tools, seeAdmin)
	case s.Tools == 0 && s.Items == 0:
		rs.add("catalog_empty", Degraded, "The servers list no tool ("+text.Count(s.Available, "server")+" loaded).", "See /admin/servers, and check what the servers list.")
	}
	h.away(rs)
	if refused := h.Servers.Refused; len(refused) > 0 {
		what, each := "tools", "tool"
		if h.Servers.Others {
			what, each = "tools, prompts or resources", "one"
		}
		rs.add("tools_refused", Degraded,
			text.Count(len(refused), "server")+" listed "+what+" that the gateway does not support: "+text.List(refused, maxServersNamed)+".",
			"/admin/servers names each "+each+" and says why. The server's owner has to fix it.")
	}
	if unread := h.Servers.Unread; len(unread) > 0 {
		rs.add("lists_unread", Degraded,
			"A list of prompts or resources of "+text.Count(len(unread), "server")+" could not be read: "+text.List(unread, maxServersNamed)+
				". The gateway keeps the last list, and the next sync reads it again.",
			"/admin/servers names each list and says why.")
	}
}

// away adds that some servers did not load. If only a few servers are missing, the condition stays
// OK.
func (h Health) away(rs *reasons) {
	s := h.Servers
	n, total := len(s.Away), s.Enabled-s.Stopped
	if n == 0 || s.Available == 0 { // a load of no server has its own reason
		return
	}
	condition := OK
	if 3*n > total {
		condition = Degraded
	}
	rs.add("servers_away", condition, fmt.Sprintf("%d of %s could not be loaded: %s. Calls of their tools may fail.",
		n, text.Count(total, "enabled server"), text.List(s.Away, maxServersNamed)), seeAdmin)
}
