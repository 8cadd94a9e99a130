package lock

// blocked stands in every text but that of a config denial: it is what an agent
// that guessed the name must read first.
func blocked(kind string) string {
	switch kind {
	case "prompt":
		return "Prompt is disabled and cannot be used. "
	case "resource":
		return "Resource is disabled and cannot be read. "
	}
	return "Tool is disabled and not callable. "
}

// Remediation is [RemediationOf] for a tool.
func Remediation(s Status, link string) string { return RemediationOf("tool", s, link) }

// RemediationOf returns what a person must do to unlock an item that is locked for
// the reason s: one text for each status. kind is "tool", "prompt" or "resource". [None] has none,
// and a status that is none of the five is undetermined.
//
// link is where the user decides; it may be empty, and stands only in the texts of
// the two statuses that the user can lift.
func RemediationOf(kind string, s Status, link string) string {
	switch s {
	case None:
		return ""
	case ServerDisabled:
		return blocked(kind) + "Its server is disabled or stopped; ask for the server to be enabled first."
	case DisabledByConfig:
		return "This " + kind + " is denied by operator policy, in mcp_config.json or policy.cedar. " +
			"The user cannot override it; only the operator can change it."
	case DisabledByUser:
		return blocked(kind) + "The user disabled it; ask the user to re-enable it " + page(link)
	case PendingApproval:
		return blocked(kind) + "It waits for approval; ask the user to review and approve it " + page(link)
	case DisabledUnknown:
	}
	return blocked(kind) + "The reason is undetermined; check the server logs."
}

// page names the page where people decide. The link ends the text, without a full stop that a
// client might make part of it.
func page(link string) string {
	if link == "" {
		return "in the Portcullis page."
	}
	return "in the Portcullis page: " + link
}
