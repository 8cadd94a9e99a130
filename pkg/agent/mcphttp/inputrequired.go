package mcphttp

// Texts for a tool's question that no client can answer.
const (
	asksOldClient = "The tool asks for input in a way that your client's protocol version does not have. " +
		"The call may have had side effects. Check before you call again."
	answersOddly = "The tool answered in a form that this gateway does not know, so its answer cannot be passed on. " +
		"The call was sent and may have taken effect; check before calling again."
)
