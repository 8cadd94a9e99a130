package decide

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// AuditQuery says which lines of the audit a request wants. A line must match every field that is
// set.
type AuditQuery struct {
	Actor  string `query:"actor" maxLength:"512" doc:"the person, or the agent that called"`
	Action string `query:"action" maxLength:"512" doc:"approve, block, token_made, …; for calls the result: allowed, locked, tier, scope, stopped, refused"`
	Server string `query:"server" maxLength:"512" doc:"server of the tool, prompt or resource, or the stopped server; it may no longer be configured"`
	Tool   string `query:"tool" maxLength:"4096" doc:"id of a tool, prompt or resource, or a tool's name at any server"`
	Kind   string `query:"kind" enum:"call,deed" doc:"calls of agents, or actions of people"`
	Sync   string `query:"sync" enum:"show,hide" doc:"hide: leave out the lines that syncs wrote about definitions; the default is show"`
	Since  string `query:"since" maxLength:"64" doc:"start of the time range: 2026-11-22, 2026-11-22T14:00:00Z, or a duration before now, such as 24h or 7d"`
	Until  string `query:"until" maxLength:"64" doc:"end of the time range, in the forms of since; the range does not include this moment"`
}

// AuditParameters are the names of the query parameters of an [AuditQuery].
var AuditParameters = []string{
	"actor", "action", "server", "tool", "kind", "sync", "since", "until",
}

// ReadAuditQuery reads the query from the parameters.
func ReadAuditQuery(v url.Values) AuditQuery {
	get := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	return AuditQuery{
		get("actor"), get("action"), get("server"), get("tool"), get("kind"), get("sync"),
		get("since"), get("until"),
	}
}

// Values returns the query as parameters of an address, without empty ones.
func (q AuditQuery) Values() url.Values {
	v := url.Values{}
	for i, s := range []string{q.Actor, q.Action, q.Server, q.Tool, q.Kind, q.Sync, q.Since, q.Until} {
		if s != "" {
			v.Set(AuditParameters[i], s)
		}
	}
	return v
}

// Filter returns the filter of the query.
func (q AuditQuery) Filter(now time.Time) (f audit.Filter, err error) {
	f = audit.Filter{
		Actor:  q.Actor,
		Action: q.Action,
		Server: q.Server,
		Tool:   q.Tool,
		Kind:   q.Kind,
		NoSync: q.Sync == "hide" && q.Actor != audit.ActorSync,
	}
	if f.Kind != "" && f.Kind != audit.KindCall && f.Kind != audit.KindEvent {
		return f, Refuse(
			http.StatusUnprocessableEntity,
			"kind "+text.Quote(f.Kind, 64)+" is not known: it takes call or deed",
		)
	}
	if q.Sync != "" && q.Sync != "show" && q.Sync != "hide" {
		return f, Refuse(
			http.StatusUnprocessableEntity,
			"sync "+text.Quote(q.Sync, 64)+" is not known: it takes show or hide",
		)
	}
	for _, bound := range []struct {
		name, value string
		at          *time.Time
	}{{"since", q.Since, &f.Since}, {"until", q.Until, &f.Until}} {
		var ok bool
		if *bound.at, ok = moment(bound.value, now); !ok {
			return f, Refuse(
				http.StatusUnprocessableEntity,
				bound.name+" "+text.Quote(bound.value, 64)+
					" is not a time: it takes a day such as 2026-11-22, a moment such as 2026-11-22T14:00:00Z, or how long ago, such as 24h or 7d",
			)
		}
	}
	return f, nil
}

// moment parses a time, or a duration before now. "" is the zero time.
func moment(s string, now time.Time) (at time.Time, ok bool) {
	if s == "" {
		return at, true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return now.UTC().AddDate(0, 0, -n), true
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.UTC().Add(-d), true
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.UTC(), true
		}
	}
	return at, false
}
