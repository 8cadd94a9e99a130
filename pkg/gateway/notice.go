package gateway

import (
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

const (
	unlockHint  = "include_disabled: true shows why, and who can unlock them."
	serversHint = "upstream_servers says why."
)

// lockedMatches says that nothing but locked tools match.
func lockedMatches(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 matching tool is locked: include_disabled: true shows why, and who can unlock it."
	}
	return text.Count(n, "matching tool") + " are locked: " + unlockHint
}

// lockedBetter says that locked tools match better than what was found.
func lockedBetter(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 locked tool matches better than these: include_disabled: true shows it, why it is locked, and who can unlock it."
	}
	return text.Count(n, "locked tool") + " match better than these: include_disabled: true shows them, why they are locked, and who can unlock them."
}

// absent says why there may be nothing to find although nothing is wrong with the query;
// "" if everything that could be searched was.
func (s *Session) absent() string {
	return joined(append([]string{s.absentServers()}, olderSentences(s.st.Health)...)...)
}

// absentServers says which of the servers that exist for this request could not be searched.
// A request that narrows what it is offered down to nothing was refused before.
func (s *Session) absentServers() string {
	servers := s.servers()
	enabled, away := 0, 0
	for _, srv := range servers {
		if srv.Config.Enabled {
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
	case away == 1:
		return "1 of your " + text.Count(enabled, "server") + " is unavailable and may have what you look for: " + serversHint
	case away > 0:
		return strconv.Itoa(away) + " of your " + text.Count(enabled, "server") + " are unavailable and may have what you look for: " + serversHint
	case s.sel.Tools.Len() > 0:
		return ""
	case enabled == 0:
		return "No server that you may use is switched on: ask the gateway's operator."
	}
	return "No server that you may use lists a tool."
}

// olderSentences say what a search goes by that is not the newest. They hold nothing
// that depends on who asks.
func olderSentences(h state.Health) []string {
	var out []string
	for _, r := range h.Reasons() {
		switch r.Code {
		case "config_refused", "config_gone", "config_unread":
			out = append(out, "The gateway goes on with an older configuration, since the newest cannot be used: its operator has to mend it.")
		case "sync_failed", "catalog_old", "catalog_unread", "catalog_unusable":
			if !h.Sync.At.IsZero() {
				out = append(out, "The list of tools is of "+h.Sync.At.UTC().Format("2006-01-02 15:04")+" UTC: newer tools are not known here.")
			}
		}
	}
	if len(out) > 1 && out[0] == out[1] {
		out = out[:1]
	}
	return out
}

// downText says why there is nothing to answer from, by the worst reason.
func downText(h state.Health) string {
	const (
		nothing = " No tool is known, and nothing was called. "
		wait    = "Try again shortly, and tell the gateway's operator if it lasts."
	)
	code := ""
	if reasons := h.Reasons(); len(reasons) > 0 {
		code = reasons[0].Code
	}
	switch code {
	case "config_missing":
		return "This gateway has no configuration yet." + nothing + "Its operator has to store one."
	case "config_refused":
		return "This gateway's configuration has faults and cannot be used." + nothing + "Its operator has to mend it."
	case "config_unread":
		return "This gateway cannot read its configuration." + nothing + wait
	case "catalog_missing":
		return "This gateway has not loaded the tools of its servers yet." + nothing + wait
	case "catalog_unread", "catalog_unusable":
		return "This gateway cannot read its list of tools." + nothing + wait
	case "selection_unusable":
		return "What this gateway's operator chose to offer cannot be offered as it is configured." + nothing + "The operator has to mend it."
	}
	return "This gateway cannot read its configuration or its list of tools." + nothing + wait
}

// joined puts sentences one after the other.
func joined(sentences ...string) string {
	var out []string
	for _, s := range sentences {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}
