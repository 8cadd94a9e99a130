package decide

import (
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// rule returns the rule or switch that locks the item and that no decision about a request can
// override; "" if there is none.
func (s requestView) rule() string {
	if !s.listed {
		return ""
	}
	switch s.status {
	case lock.ServerDisabled:
		return s.switchOf()
	case lock.DisabledByConfig:
		return s.denial()
	case lock.DisabledUnknown:
		return "the gateway does not know why it is locked: " + text.List(append([]string{"the operator looks at /admin/health and at the log of the gateway"}, s.verdict.Rules...), 4)
	case lock.None, lock.DisabledByUser, lock.PendingApproval:
	}
	return ""
}

// switchOf returns what keeps agents from calling the server.
func (s requestView) switchOf() string {
	server := s.m.v.Server(s.i).Config
	if !server.Enabled {
		return fmt.Sprintf("mcp_config.json disables the server: the operator sets mcpServers.%s.enabled to true", server.Name)
	}
	if stopped, is := s.m.st.Stopped(s.m.stops).Server(server.Name); is && stopped.By == "" {
		return "everything or the server is " + stopped.Note() + ": the operator removes that " +
			"stop from the key stop of mcp_config.json"
	} else if is {
		return fmt.Sprintf("%v is %s: an operator undoes that at /admin/stop", stopped.Target, stopped.Note())
	}
	return "the gateway does not know whether the server is stopped"
}

// denial returns the operator's rule that denies the item, and the change that would allow it.
func (s requestView) denial() string {
	v := s.verdict
	switch {
	case v.Denied != lock.Yes:
		return "a rule of policy.cedar that reads the claims of the agent's token denied it when " +
			"the agent asked. It is one of " +
			"these: " + text.List(s.m.st.Policy.MayDeny(s.agent, s.called), 8)
	case !v.ByList():
		return rulesIn(v)
	}
	path := v.Rules[0]
	how := "take that entry out of the list, or write it so that it does not match " + s.one.Item().String()
	if strings.HasSuffix(path, ".enabled_tools") {
		how = fmt.Sprintf("add %q to that list", s.one.Tool)
	}
	return fmt.Sprintf("%s in mcp_config.json denies it to every agent, because a list applies "+
		"to all agents. To let agents call it, %s. To let only this agent call it, also add a "+
		"forbid for all others to policy.cedar", path, how)
}

// rulesIn returns the positions and texts of the rules that deny an item; "" if no rule does.
func rulesIn(v policy.Verdict) string {
	if v.Denied != lock.Yes {
		return ""
	}
	return strings.TrimSuffix(text.List(v.Rules, 8)+": "+v.Denial.Note(), ": ")
}

// exemption returns the rules of policy.cedar that deny the item, changed so that this agent may
// call it.
func (s requestView) exemption() string {
	if !s.listed || s.status != lock.DisabledByConfig || s.verdict.ByList() || !s.one.agent.Alone() {
		return ""
	}
	return s.m.st.Policy.Exempt(s.agent, s.called, s.unsure)
}
