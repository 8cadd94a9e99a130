package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// lockItems puts prompts and resources into each locked state.
func lockItems(t *testing.T, fleet *fleettest.Fleet, i fleettest.Items, p *programtest.Program) []lockedTool {
	t.Helper()
	disabled, unknown, blocked, denied := i.Prompts[0], i.Prompts[1], i.Resources[0], i.Resources[1]
	p.Ask(http.StatusOK, page(disabled)+"/disable", map[string]any{"note": "not today"}, nil)
	var now struct{ Hash string }
	p.Ask(http.StatusOK, page(blocked), nil, &now)
	p.Ask(http.StatusOK, page(blocked)+"/block", map[string]any{"hash": now.Hash, "note": "it says too much"}, nil)
	programtest.WritePolicy(t, p.Dir, fmt.Sprintf("@id(\"broken\")\nforbid (principal, action, resource == Prompt::%q) when { principal.level > 1 };\n", unknown))
	p.Configure(strings.Replace(fleet.Config(fmt.Sprintf(`, "tools": {"disabled": [%q]}`, denied)),
		fmt.Sprintf(`%q: {`, i.OffServer), fmt.Sprintf(`%q: {"enabled": false, `, i.OffServer), 1))
	return []lockedTool{
		{"disabled", disabled, "disabled_by_user", "Enable"},
		{"blocked", blocked, "disabled_by_user", "Unblock"},
		{"changed-prompt", i.ChangedPrompt, "pending_approval", "Approve"},
		{"changed-resource", i.ChangedResource, "pending_approval", "Approve"},
		{"new-prompt", i.NewPrompt, "pending_approval", "Approve"},
		{"new-template", i.NewTemplate, "pending_approval", "Approve"},
		{"unknown", unknown, "disabled_unknown", ""},
		{"denied", denied, "disabled_by_config", ""},
		{"off", i.Off, "server_disabled", ""},
	}
}

// The pages of prompts and resources, and the lists with them, fit and are accessible.
func TestPagesOfItems(t *testing.T) {
	d := openItems(t)
	d.look([]place{
		{"items-inbox", "/admin"}, {"items-tools", "/admin/tools"}, {"items-queue", "/admin/tools?status=pending_approval&kind=resource"},
		{"items-prompt-arguments", page(d.items.ChangedPrompt) + "?view=arguments"},
		{"items-resource-side", page(d.items.ChangedResource) + "?view=description&diff=side"},
		{"items-template-raw", page(d.items.NewTemplate) + "?view=raw"},
	})
	d.look([]place{
		{"items-new-prompt", page(d.items.NewPrompt)}, {"items-servers", "/admin/servers"},
		{"items-server", "/admin/servers/" + d.items.Server},
	})
}

// Every address in an answer about a locked prompt or resource opens a page with the button that
// unlocks it.
func TestRemediesOfItems(t *testing.T) {
	t.Parallel()
	fleet, items, p := fleettest.RunItems(t, programtest.Tokens(), small())
	agent := "Authorization: Bearer " + p.Token("agent", false)
	locked := lockItems(t, fleet, items, p)
	opened(t, p, p.Token("kim", true), 6, func(yield func(lockedTool, []remedy) bool) {
		for _, l := range locked {
			id, err := tool.ParseID(l.id)
			if err != nil {
				t.Fatal(err)
			}
			method, params := "prompts/get", map[string]any{"name": id.Direct()}
			if id.Kind == tool.Resource {
				method, params = "resources/read", map[string]any{"uri": id.Name}
			}
			if l.id == items.NewTemplate {
				params["uri"] = fleettest.URI
			}
			said := p.Refused(method, params, agent)
			if !strings.Contains(said, l.status) {
				t.Errorf("%s is %s, but the answer to the agent is %s", l.id, l.status, said)
			}
			if id.Kind == tool.Resource {
				said = strings.ReplaceAll(said, id.Name, "") // which may be a URL
			}
			if !yield(l, []remedy{{l.button, said}}) {
				return
			}
		}
	})
}
