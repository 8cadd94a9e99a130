package lock

// Counts says how many tools of a server are callable, and how many are
// locked for each reason.
type Counts struct {
	Callable         int `json:"callable"`
	DisabledByConfig int `json:"disabled_by_config,omitempty"`
	DisabledByUser   int `json:"disabled_by_user,omitempty"`
	PendingApproval  int `json:"pending_approval,omitempty"`
	ServerDisabled   int `json:"server_disabled,omitempty"`
	DisabledUnknown  int `json:"disabled_unknown,omitempty"`
}

// Add counts one more tool with the status s. Any other string counts as [DisabledUnknown].
func (c *Counts) Add(s Status) {
	switch s {
	case None:
		c.Callable++
	case ServerDisabled:
		c.ServerDisabled++
	case DisabledByConfig:
		c.DisabledByConfig++
	case DisabledByUser:
		c.DisabledByUser++
	case PendingApproval:
		c.PendingApproval++
	default:
		c.DisabledUnknown++
	}
}

// Locked returns how many of the tools are locked.
func (c Counts) Locked() int {
	return c.ServerDisabled + c.DisabledByConfig + c.DisabledByUser + c.PendingApproval + c.DisabledUnknown
}
