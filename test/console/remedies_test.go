package console_test

import (
	"fmt"
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

// addresses are what looks like one in what an agent is told.
var addresses = regexp.MustCompile(`https?://[^\s"\\<>]+`)

// Every address that an agent is given in any state of a lock opens a page with the button that
// lifts it: for a person who signs in once.
func TestRemedies(t *testing.T) {
	t.Run("laptop", func(t *testing.T) {
		fleet, p := fleettest.Run(t, small())
		remedies(t, fleet, p, p.Admin)
	})
	t.Run("tokens", func(t *testing.T) {
		fleet, p := fleettest.RunWith(t, programtest.Tokens(), small())
		remedies(t, fleet, p, p.Token("kim", true), "Authorization: Bearer "+p.Token("agent", false))
	})
}

// remedies collects the addresses that an agent with these headers is given, and opens them as a
// person who signs in with a key.
func remedies(t *testing.T, fleet *fleettest.Fleet, p *programtest.Program, key string, agent ...string) {
	t.Helper()
	locked := lockAll(t, fleet, p)
	opens := map[string]string{} // addresses, with the status of whose lock they are
	for id, status := range locked {
		for _, said := range told(p, id, status, agent...) {
			for _, address := range addresses.FindAllString(said.text, -1) {
				opens[address] = said.status
			}
		}
	}
	statuses := slices.Compact(slices.Sorted(maps.Values(opens)))
	if want := []string{"disabled_by_user", "pending_approval"}; !slices.Equal(statuses, want) || len(opens) < len(locked)/2 {
		t.Fatalf("agents are given %v, want addresses for %v", opens, want)
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
		want := "Approve"
		if opens[address] == "disabled_by_user" {
			want = "Enable|Unblock"
		}
		if strings.Contains(address, "?") { // a list, of tools that are each decided about on a page of its own
			tab.Loads("the first tool of "+address, func() { tab.Click(`main tbody a`) })
		}
		if buttons := strings.Join(tab.Texts(`main button:enabled`), ", "); !regexp.MustCompile(`(?i)\b(` + want + `)\b`).MatchString(buttons) {
			t.Errorf("%s, which is for %s, has the buttons %s, want %s", address, opens[address], buttons, want)
		}
	}
}

// lockAll puts tools into each state in which an agent may not call them, and returns them with it.
func lockAll(t *testing.T, fleet *fleettest.Fleet, p *programtest.Program) map[string]string {
	t.Helper()
	locked := map[string]string{}
	for _, id := range []string{fleet.Word, fleet.Hidden, fleet.New[0], fleet.New[20]} {
		locked[id] = "pending_approval"
	}
	type listed struct{ ID, Server, Hash string }
	block := func(x listed) {
		p.Ask(http.StatusOK, page(x.ID)+"/block", map[string]any{"hash": x.Hash, "note": "no"}, nil)
		locked[x.ID] = "disabled_by_user"
	}
	for _, x := range agenttest.Pages[listed](&p.Client, "tools", "tools", "status=pending_approval") {
		if x.ID == fleet.New[1] {
			block(x)
		}
	}
	var open []listed
	for _, x := range agenttest.Pages[listed](&p.Client, "tools", "tools", "status=callable") {
		if x.Server != fleet.Denied && x.Server != fleet.Failing {
			open = append(open, x)
		}
	}
	for _, x := range open[:2] {
		p.Ask(http.StatusOK, page(x.ID)+"/disable", map[string]any{"note": "not today"}, nil)
		locked[x.ID] = "disabled_by_user"
	}
	block(open[2])
	off := open[len(open)-1]
	programtest.WritePolicy(t, p.Dir, fmt.Sprintf("@id(\"broken\")\nforbid (principal, action, resource == Tool::%q) when { principal.level > 1 };\n", open[3].ID))
	p.Configure(strings.Replace(fleet.Config(fmt.Sprintf(`, "tools": {"disabled": [%q]}`, open[4].ID)),
		fmt.Sprintf(`%q: {`, off.Server), fmt.Sprintf(`%q: {"enabled": false, `, off.Server), 1))
	locked[open[3].ID], locked[open[4].ID], locked[off.ID] = "disabled_unknown", "disabled_by_config", "server_disabled"
	return locked
}

// A remedy is what an agent is told about tools in a state.
type remedy struct{ status, text string }

// told returns what an agent is told that asks in every way about a tool in a state, and with it
// about others that a search for its name finds.
func told(p *programtest.Program, id, status string, headers ...string) []remedy {
	p.T.Helper()
	var out []remedy
	for _, variant := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
		out = append(out, remedy{status, p.Call(variant, map[string]any{"name": id}, headers...).Text})
	}
	out = append(out, remedy{status, p.Call("describe_tools", map[string]any{"names": []string{id}}, headers...).Text})
	for _, said := range out {
		if !strings.Contains(said.text, status) {
			p.T.Errorf("%s is %s, and an agent is told %s", id, status, said.text)
		}
	}
	_, name, _ := strings.Cut(id, ":")
	var found struct{ Remediation map[string]string }
	p.CallJSON("retrieve_tools", map[string]any{"query": strings.ReplaceAll(name, "_", " "), "include_disabled": true}, &found, headers...)
	for status, text := range found.Remediation {
		out = append(out, remedy{status, text})
	}
	return out
}
