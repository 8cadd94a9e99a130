package lock

// blocked returns the first sentence of every text except a config denial: an agent that guessed
// the name must read it first.
func blocked(kind string) string {
	switch kind {
	case "prompt":
		return "Prompt is disabled and cannot be used. "
	case "resource":
		return "Resource is disabled and cannot be read. "
	}
	return "Tool is disabled and not callable. "
}

// RemediationOf returns what a person must do to unlock an item with the status s: one text for
// each status. kind is "tool", "prompt" or "resource". The text of [None] is "". Any other string
// has the text of [DisabledUnknown].
//
// link is the page where the user decides. It may be empty, and appears only for the two statuses
// that the user can lift.
func RemediationOf(kind string, s Status, link string) string {
	switch s {
	case None:
		return ""
	case ServerDisabled:
		return blocked(kind) + "Its server is disabled or stopped. " +
			"Enable the server first; only the gateway's operator can."
	case DisabledByConfig:
		return "This " + kind + " is denied by operator policy, in mcp_config.json or policy.cedar. " +
			"The user cannot override it; only the operator can change it."
	case DisabledByUser:
		return blocked(kind) + "A person disabled it. Ask the user to re-enable it" + page(link)
	case PendingApproval:
		return blocked(kind) + "A person must approve its definition first. " +
			"Ask the user to approve it, or to have it reviewed" + page(link)
	case DisabledUnknown:
	}
	return blocked(kind) + "The reason is undetermined. Try again later. " +
		"If it stays locked, the gateway's operator must check the gateway's server logs."
}

// page ends a text with the link to the page where people decide. No full stop follows the link: a
// client might make it part of the link.
func page(link string) string {
	if link == "" {
		return "."
	}
	return ": " + link
}
