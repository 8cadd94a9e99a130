package gateway

import "github.com/portcullis-mcp/portcullis/pkg/request"

// asker returns the key of the agent's requests; "": what is decided about them cannot matter here.
func (s *Session) asker() string {
	if s.st.Config == nil || !s.st.Config.Gateway.Requests && len(s.st.Config.Tools.Confirm) == 0 {
		return ""
	}
	return request.AgentOf(s.caller.Agent).Key()
}
