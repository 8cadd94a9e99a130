package repocheck

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// callerPackages contains the packages that store data of a caller between two requests.
var callerPackages = []string{"pkg/agent/gateway", "pkg/agent/mcphttp", "pkg/agent/state", "pkg/upstream"}

// agentIDs contains the functions of these packages that may read the id of an agent, with the
// purpose. Two users can have tokens with the same id. Therefore data of a caller is stored under
// identity.Agent.Owner, which includes the user. Only the uses here concern an agent of any user.
var agentIDs = map[string]string{
	"pkg/agent/gateway/requests.go open":             "notice: names the agent that requests access",
	"pkg/agent/gateway/requests.go logUnread":        "log",
	"pkg/agent/gateway/lockinfo.go countLocked":      "log",
	"pkg/agent/gateway/requestaccess.go incident":    "log",
	"pkg/agent/gateway/runningcalls.go While":        "stop: by agent",
	"pkg/agent/gateway/runningcalls.go whileGoing":   "stop: by agent",
	"pkg/agent/gateway/lockstate.go Stopped":         "stop: by agent",
	"pkg/agent/gateway/lockstate.go checkStopped":    "stop: by agent",
	"pkg/agent/gateway/lockstate.go refusal":         "stop: by agent",
	"pkg/agent/gateway/explain.go explain":           "policy: by agent",
	"pkg/agent/mcphttp/record.go isAudited":          "audit: the gateway accepted the agent",
	"pkg/agent/mcphttp/record.go keep":               "audit: beside the user",
	"pkg/agent/mcphttp/record.go described":          "log",
	"pkg/agent/mcphttp/notifystream.go isStillValid": "log",
	"pkg/agent/mcphttp/clientinfo.go reportClient":   "the list of clients, for people",
	"pkg/agent/state/cache.go agentKey":              "verdicts: with the user, and all other inputs",
	"pkg/agent/state/grants.go NowAt":                "grant: compared with its agent, whose document is found by agent and user",
}

// No package looks up a caller's data by the id of the agent alone.
func TestCallersAreNotFoundByAgentID(t *testing.T) {
	found := map[string]bool{}
	for _, f := range files(t) {
		if f.test || !slices.ContainsFunc(callerPackages, func(dir string) bool { return f.dir == dir }) {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !readsAgentID(fn) {
				continue
			}
			name := f.path + " " + fn.Name.Name
			found[name] = true
			if agentIDs[name] == "" {
				t.Errorf("%s reads the id or the Way of an agent: use Agent.Owner for data of a caller, or list the function in agentIDs with the reason", name)
			}
		}
	}
	for name := range agentIDs {
		if !found[name] {
			t.Errorf("%s is in agentIDs, but reads no id of an agent", name)
		}
	}
}

// readsAgentID reports whether a function reads the field ID or Way of a variable named agent, or
// of a parameter of type identity.Agent.
func readsAgentID(fn *ast.FuncDecl) (reads bool) {
	params := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			for _, p := range n.Params.List {
				if kind, ok := p.Type.(*ast.SelectorExpr); ok && kind.Sel.Name == "Agent" {
					for _, name := range p.Names {
						params[name.Name] = true
					}
				}
			}
		case *ast.SelectorExpr:
			if n.Sel.Name != "ID" && n.Sel.Name != "Way" {
				break
			}
			switch of := n.X.(type) {
			case *ast.Ident:
				reads = reads || params[of.Name] || strings.EqualFold(of.Name, "agent")
			case *ast.SelectorExpr:
				reads = reads || strings.EqualFold(of.Sel.Name, "agent")
			}
		}
		return true
	})
	return reads
}
