package lock

// blocked stands in every text but that of a config denial: it is what an agent
// that guessed the tool's name must read first.
const blocked = "Tool is disabled and not callable. "

// Remediation returns what a person must do to unlock a tool that is locked
// for the reason s, in one text for each status. link is where the user decides; it is used
// only where the user can, and may be empty. [None] has no remediation.
func Remediation(s Status, link string) string {
	page := "in the Portcullis page"
	if link != "" {
		page += ": " + link
	}
	switch s {
	case None:
		return ""
	case ServerDisabled:
		return blocked + "Its server is disabled: ask for the server to be enabled first."
	case DisabledByConfig:
		return "Denied by operator policy (mcp_config.json or policy.cedar). The user cannot override it; only the operator can change it."
	case DisabledByUser:
		return blocked + "The user disabled it: ask the user to re-enable it " + page
	case PendingApproval:
		return blocked + "It waits for approval: ask the user to review and approve it " + page
	case DisabledUnknown:
	}
	return blocked + "The reason is undetermined: check the server logs."
}
