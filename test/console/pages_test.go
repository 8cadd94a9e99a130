package console_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// A place is the path of a page, and its name in pictures.
type place struct{ name, path string }

// pages returns the pages of a console before any decision.
func (d *fixture) pages() []place {
	server, _, _ := strings.Cut(d.fleet.Word, ":")
	return append(
		pagesOf(d.fleet.Update),
		place{
			"me",
			"/admin/me",
		},
		place{"sessions", "/admin/sessions"},
		place{"policy", "/admin/policy"},
		place{"edit-server", "/admin/servers/" + server + "/edit"},
	)
}

// pagesOf returns the pages for a fleet after its update.
func pagesOf(u fleettest.Update) []place {
	server, _, _ := strings.Cut(u.Word, ":")
	return []place{
		{"inbox", "/admin"},
		{"tools", "/admin/tools"},
		{"queue", "/admin/tools?status=pending_approval"},
		{"none", "/admin/tools?q=there+is+no+such+tool"},
		{"review-word", page(u.Word)},
		{"review-parameter", page(u.Parameter)},
		{"review-hidden", page(u.Hidden)},
		{"review-new", page(u.New[0])},
		{"review-side", page(u.Word) + "?view=description&diff=side"},
		{"review-input", page(u.Parameter) + "?view=input&only=1"},
		{"review-raw", page(u.Hidden) + "?view=raw"},
		{"history", page(u.Word) + "/history"},
		{"servers", "/admin/servers"},
		{"try", "/admin/try"},
		{"try-found", "/admin/try?query=read+a+file&servers=*&tiers=read&include_disabled=1"},
		{"call", "/admin/call"},
		{"server", "/admin/servers/" + server},
		{"add-server", "/admin/add-server"},
		{"server-denied", "/admin/servers/" + u.Denied},
		{"audit", "/admin/audit"},
		{"audit-syncs", "/admin/audit?sync=show"},
		{"audit-filter", "/admin/audit?kind=deed&server=" + server},
		{"agents", "/admin/agents"},
		{"usage", "/admin/usage"},
		{"health", "/admin/health"},
		{"config", "/admin/config"},
		{"config-file", "/admin/config/mcp_config.json"},
		{"config-policy", "/admin/config/policy.cedar"},
		{"connect", "/admin/connect"},
		{"connect-claude", "/admin/connect/claude?since=1"},
		{"connect-cursor", "/admin/connect/cursor?path=/mcp/readonly&since=1"},
		{"connect-devin", "/admin/connect/devin?since=1"},
		{"stop", "/admin/stop"},
		{"requests-none", "/admin/requests"},
		{"requests-all-none", "/admin/requests?state=all"},
	}
}

// Every page fits into a window of 320 px and at 200 %, light and dark, and breaks no rule of axe.
func TestPages(t *testing.T) {
	d := open(t, small())
	d.look(d.pages())
	d.tab.Goto("/admin/config") // two of the servers are not available
	d.tab.SeeText("main h2", "To fix")
	if marks := d.tab.Texts("main li .chip.ok"); len(marks) > 0 {
		t.Errorf("a fault has the mark %q", marks)
	}
}

// look checks pages in each of [browsertest.Looks].
func (d *fixture) look(places []place) {
	d.T.Helper()
	for _, p := range places {
		d.tab.Run(p.name, func(*testing.T) {
			d.tab.Goto(p.path)
			d.tab.See("h1")
			d.tab.Everywhere(p.name)
		})
	}
}

// The pages also fit if tools are locked in every way and the newer config is refused. Every page
// then shows that the config is refused.
func TestPagesOfLockedTools(t *testing.T) {
	d := open(t, small())
	locked := lockAll(t, d.fleet, d.Program)
	var places []place
	for _, l := range locked {
		places = append(places, place{"locked-" + l.name, page(l.id)})
	}
	places = append(places,
		place{"locked-history", page(locked[0].id) + "/history"}, place{"locked-inbox", "/admin"}, place{"locked-config", "/admin/config"},
		place{"locked-server", "/admin/servers/" + strings.Split(locked[len(locked)-1].id, ":")[0]})
	d.look(places)

	programtest.WriteConfig(t, d.Dir, strings.Replace(d.fleet.Config(""), `"annotations"`, `"anotations"`, 1))
	local.Until(t, "the gateway has read the config", func() bool { return strings.Contains(d.get("/admin").Body, `class="banner"`) })
	for _, p := range places {
		d.tab.Goto(p.path)
		if said := d.tab.Text(".banner"); !strings.Contains(said, "mcp_config.json is refused") || !strings.Contains(said, "anotations") {
			t.Errorf("%s: the banner about the refused config: %s", p.path, said)
		}
	}
	d.look([]place{{"refused-inbox", "/admin"}, {"refused-config", "/admin/config"}})
}

// The pages of errors fit and are accessible.
func TestProblemPages(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`status 4(04|22) of `)
	d.look([]place{{"problem-404", "/admin/tools/no/such"}, {"problem-422", "/admin/tools?status=nonsense"}, {"problem-address", "/admin/nowhere"}})
}
