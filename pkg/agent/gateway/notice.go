package gateway

import (
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	showOne     = " Set include_disabled: true to see it and who can unlock it."
	showMany    = " Set include_disabled: true to see them and who can unlock them."
	serversHint = "upstream_servers says why."
)

// noticeLocked returns the notice of a search that matches n locked tools and no callable tool.
func noticeLocked(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "No callable tool matches, but 1 locked tool does." + showOne
	}
	return "No callable tool matches, but " + text.Count(n, "locked tool") + " do." + showMany
}

// noticeBetter returns the notice of a search in which n locked tools match better than every
// callable tool.
func noticeBetter(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 locked tool matches better than these." + showOne
	}
	return text.Count(n, "locked tool") + " match better than these." + showMany
}

// noMatch is the advice for a search without a match.
const noMatch = "No tool matches. Try other words, fewer words, or English."

// noticeEmpty returns the notice of a search that matches n locked tools and no callable tool. The
// notice has advice, and names the servers that the search could not cover.
func (s *Session) noticeEmpty(n int) string {
	advice := noticeLocked(n)
	if advice == "" && s.sel.Tools.Len() > 0 {
		advice = noMatch
	}
	return joined(advice, s.unsearched())
}

// unsearched returns the reason why a correct query may find nothing, or "" if the search was
// complete.
func (s *Session) unsearched() string {
	return joined(append([]string{s.unsearchedServers()}, olderSentences(s.st.Health)...)...)
}

// unsearchedServers names the servers of this request that the search could not cover. The gateway
// has already refused a request that selects nothing.
func (s *Session) unsearchedServers() string {
	servers := s.servers()
	enabled, away := 0, 0
	for _, srv := range servers {
		if _, stopped := s.view.ServerStopped(srv); srv.Config.Enabled && !stopped {
			enabled++
			if srv.Outcome.Status != outcome.Available {
				away++
			}
		}
	}
	switch {
	case len(servers) == 0:
		return "There is no server here that you may use: ask the gateway's operator."
	case away == 1 && enabled == 1:
		return "Your one server is unavailable: " + serversHint
	case away > 0 && away == enabled:
		return "None of your " + text.Count(enabled, "server") + " is available: " + serversHint
	case away > 0:
		verb := "are"
		if away == 1 {
			verb = "is"
		}
		return strconv.Itoa(away) + " of your " + text.Count(enabled, "server") + " " + verb + " unavailable and may have what you look for: " + serversHint
	case s.sel.Tools.Len() > 0:
		return ""
	case enabled == 0:
		return "No server that you may use is enabled: ask the gateway's operator."
	}
	return "No server that you may use lists a tool."
}

// olderSentences returns sentences about the outdated data that a search uses. They are the same
// for every agent.
func olderSentences(h state.Health) []string {
	var out []string
	for _, r := range h.Reasons() {
		switch r.Code {
		case "config_refused", "config_gone", "config_unread":
			out = append(out, "The gateway uses an older configuration, because the newest cannot be used: its operator has to fix it.")
		case "sync_failed", "catalog_old", "catalog_unread", "catalog_unusable", "catalog_newer":
			if !h.Sync.At.IsZero() {
				out = append(out, "The list of tools is from "+h.Sync.At.UTC().Format("2006-01-02 15:04")+" UTC: newer tools are not in it.")
			}
		}
	}
	return slices.Compact(out)
}

// downText returns the worst reason why the gateway has no data for an answer.
func downText(h state.Health) string {
	why, then := "cannot read its configuration or its list of tools", "Try again shortly, and tell the gateway's operator if it lasts."
	if reasons := h.Reasons(); len(reasons) > 0 {
		switch reasons[0].Code {
		case "config_missing":
			why, then = "has no configuration yet", "Its operator has to store one."
		case "config_refused":
			why, then = "cannot use its configuration, which has faults", "Its operator has to fix it."
		case "config_unread":
			why = "cannot read its configuration"
		case "catalog_missing":
			if why = "has not loaded the tools of its servers yet"; isFirstSync(h) {
				why += ": its first sync is still running"
			}
		case "catalog_unread", "catalog_unusable", "catalog_newer":
			why = "cannot read its list of tools"
		}
	}
	return "This gateway " + why + ". No tool is known, and nothing was called. " + then
}

// isFirstSync reports whether there is a config, and no sync has ended yet, even with an error.
func isFirstSync(h state.Health) bool {
	return h.Config.InUse && h.Sync.At.IsZero() && h.Sync.Failed == nil
}

// joined joins sentences with spaces and omits empty ones.
func joined(sentences ...string) string {
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
}
