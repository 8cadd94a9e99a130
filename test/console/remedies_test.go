package console_test

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// addresses matches the URLs in answers to agents.
var addresses = regexp.MustCompile(`https?://[^\s"\\<>]+`)

// Every address in an answer about a locked tool opens a page with the button that unlocks the
// tool. A person needs to sign in only once.
func TestRemedies(t *testing.T) {
	t.Parallel()
	fleet, p := fleettest.Run(t, small())
	locked := lockAll(t, fleet, p)
	opened(t, p, p.Admin, len(locked)/2, func(yield func(lockedTool, []remedy) bool) {
		for _, l := range locked {
			if !yield(l, told(p, l)) {
				return
			}
		}
	})
}

// opened opens the addresses in answers to agents, as a person who signs in with a key. It expects
// at least the given number of addresses.
func opened(t *testing.T, p *programtest.Program, key string, least int, all iter.Seq2[lockedTool, []remedy]) {
	t.Helper()
	opens := map[string]string{} // address → button that the page must have
	for l, told := range all {
		for _, said := range told {
			for _, address := range addresses.FindAllString(said.text, -1) {
				if opens[address] == "" || said.button == l.button {
					opens[address] = said.button
				}
			}
		}
	}
	buttons := slices.Compact(slices.Sorted(maps.Values(opens)))
	if want := []string{"Approve", "Enable", "Unblock"}; !slices.Equal(buttons, want) || len(opens) < least {
		t.Fatalf("addresses in the answers: %v, want some with %q", opens, want)
	}
	tab := browsertest.Open(t, p.URL)
	tab.Forgive(`status 401 of `)
	for i, address := range slices.Sorted(maps.Keys(opens)) {
		tab.Goto(address)
		if i == 0 {
			tab.Fill(`main input[type=password]`, key)
			tab.Loads("signing in", func() { tab.Click(`main form button`) })
		}
		if at := tab.Location(); at != address {
			t.Errorf("%s leads to %s", address, at)
		}
		if strings.Contains(address, "?") { // a list of tools, each with its own page
			tab.Loads("the first tool of "+address, func() { tab.Click(`main [data-list] a`) })
		}
		has := strings.Join(tab.Texts(`main button:enabled`), ", ")
		found := strings.Contains(has, opens[address]) || strings.Contains(address, "?") && strings.Contains(has, "Unblock")
		if !found {
			t.Errorf("%s has the buttons %s, want %s", address, has, opens[address])
		}
	}
}

// A lockedTool is a tool that agents may not call. button unlocks it; "" if no button does.
type lockedTool struct{ name, id, status, button string }

// lockAll puts tools into each locked state.
func lockAll(t *testing.T, fleet *fleettest.Fleet, p *programtest.Program) []lockedTool {
	t.Helper()
	type listed struct{ ID, Server, Hash string }
	block := func(x listed) {
		p.Ask(http.StatusOK, page(x.ID)+"/block", map[string]any{"hash": x.Hash, "note": "it asks for too much"}, nil)
	}
	for _, x := range agenttest.Pages[listed](&p.Client, "tools", "tools", "status=pending_approval") {
		if x.ID == fleet.New[1] {
			block(x)
		}
	}
	var open []listed
	for _, x := range agenttest.Pages[listed](&p.Client, "tools", "tools", "status=callable&kind=tool") {
		if x.Server != fleet.Denied && x.Server != fleet.Failing {
			open = append(open, x)
		}
	}
	p.Ask(http.StatusOK, page(open[0].ID)+"/disable", map[string]any{"note": "not today"}, nil)
	block(open[1])
	unknown, denied, off := open[2], open[3], open[len(open)-1]
	programtest.WritePolicy(t, p.Dir, fmt.Sprintf("@id(\"broken\")\nforbid (principal, action, resource == Tool::%q) when { principal.level > 1 };\n", unknown.ID))
	p.Configure(strings.Replace(fleet.Config(fmt.Sprintf(`, "tools": {"disabled": [%q]}`, denied.ID)),
		fmt.Sprintf(`%q: {`, off.Server), fmt.Sprintf(`%q: {"enabled": false, `, off.Server), 1))
	return []lockedTool{
		{"disabled", open[0].ID, "disabled_by_user", "Enable"},
		{"blocked", open[1].ID, "disabled_by_user", "Unblock"},
		{"blocked-new", fleet.New[1], "disabled_by_user", "Unblock"},
		{"changed", fleet.Word, "pending_approval", "Approve"},
		{"changed-severely", fleet.Hidden, "pending_approval", "Approve"},
		{"new", fleet.New[20], "pending_approval", "Approve"},
		{"unknown", unknown.ID, "disabled_unknown", ""},
		{"denied", denied.ID, "disabled_by_config", ""},
		{"off", off.ID, "server_disabled", ""},
	}
}

// A remedy is the reason in an answer to an agent, and the button that unlocks the tool.
type remedy struct{ button, text string }

// told returns the answers to an agent that requests a tool in every way. A search for the tool's
// name may also find other tools.
func told(p *programtest.Program, l lockedTool) []remedy {
	p.T.Helper()
	var out []remedy
	for _, variant := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
		out = append(out, remedy{l.button, p.Call(variant, map[string]any{"name": l.id}).Text})
	}
	out = append(out, remedy{l.button, p.Call("describe_tools", map[string]any{"names": []string{l.id}}).Text})
	for _, said := range out {
		if !strings.Contains(said.text, l.status) {
			p.T.Errorf("%s is %s, but the answer to the agent is %s", l.id, l.status, said.text)
		}
	}
	_, name, _ := strings.Cut(l.id, ":")
	var found struct{ Remediation map[string]string }
	p.CallJSON("retrieve_tools", map[string]any{"query": strings.ReplaceAll(name, "_", " "), "include_disabled": true}, &found)
	for status, text := range found.Remediation {
		if button := map[string]string{"disabled_by_user": "Enable", "pending_approval": "Approve"}[status]; button != "" {
			out = append(out, remedy{button, text})
		}
	}
	return out
}
