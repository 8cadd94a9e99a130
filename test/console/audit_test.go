package console_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A task counts what a person does in the browser.
type task struct {
	*gate
	name          string
	clicks, typed int
	start         time.Time
}

// do runs a task of a person, and logs its clicks, typed fields and seconds.
func (g *gate) do(name string, run func(k *task)) {
	g.T.Helper()
	k := &task{gate: g, name: name, start: time.Now()}
	run(k)
	g.T.Logf(
		"%s: %d clicks, %d fields, %.1f s",
		k.name,
		k.clicks,
		k.typed,
		time.Since(k.start).Seconds(),
	)
}

// click clicks on an element that leads to another page.
func (k *task) click(selector, text string) {
	k.T.Helper()
	k.clicks++
	k.tab.Loads(text, func() { k.tab.ClickText(selector, text) })
}

// fill types into a field.
func (k *task) fill(selector, text string) {
	k.T.Helper()
	k.typed++
	k.tab.Fill(selector, text)
}

// sees fails the test if the rows of a table lack a text.
func (k *task) sees(texts ...string) {
	k.T.Helper()
	all := strings.Join(k.tab.Texts("main tr"), "\n")
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(all), " "), text) {
			k.T.Errorf("%s: no row has %q:\n%s", k.name, text, all)
		}
	}
}

// Five tasks of a security lead: who approved a tool for whom, what an agent called, how to stop
// it, evidence, and whether four eyes is on. The new pages are accessible and fit every window.
func TestSecurityLead(t *testing.T) {
	g := openGate(t)
	tab, agent := g.tab, g.agent("deploy-bot", "sam@example.com")
	g.CallJSON("request_access", someNote, &struct{}{}, agent)
	var open struct {
		Requests []struct{ ID, Hash string }
	}
	g.Ask(http.StatusOK, "/admin/requests", nil, &open)
	g.Ask(
		http.StatusOK,
		"/admin/requests/"+open.Requests[0].ID+"/decide",
		map[string]any{
			"verdict": "allowed",
			"minutes": 60,
			"reason":  "for the report",
			"hash":    open.Requests[0].Hash,
		},
		nil,
	)
	for range 3 {
		g.call(agent, "send_mail", `{"to":"x"}`)
	}
	g.call(agent, "pay", `{}`)
	g.kim("/admin")

	g.do("who approved send_mail for whom", func(k *task) {
		k.click("nav a", "Audit")
		k.fill("input[name=tool]", "send_mail")
		k.click("main button", "Show")
		k.sees(
			"decided a request office:send_mail",
			"for deploy-bot",
			open.Requests[0].ID,
			"“allowed",
			"admin",
		)
	})
	tab.Everywhere("audit-requests")
	g.do("what deploy-bot called today", func(k *task) {
		k.click("nav a", "Agents")
		k.click("main tbody a", "deploy-bot")
		k.sees("deploy-bot", "for sam@example.com", "3", "(1 locked)")
		tab.Everywhere("agent")
		k.click("main a", "today")
		k.sees(
			"deploy-bot for sam@example.com",
			"called available office:send_mail",
			"call refused: locked",
		)
	})
	tab.Goto("/admin/agents")
	tab.Everywhere("agents")

	g.do("evidence", func(k *task) {
		k.click("nav a", "Audit")
		k.click("main a", "Verify")
		tab.SeeText("#chain .message", "each contains the hash of the line before it")
		k.clicks++ // the download
	})
	tab.Everywhere("audit-checked")
	g.evidence()

	g.do("four eyes", func(k *task) {
		k.click("nav a", "Audit")
		tab.SeeText("main", "Four eyes: ")
	})

	g.do("stop deploy-bot", func(k *task) {
		k.click("nav a", "Agents")
		k.click("main a", "Stop…")
		k.fill("input[name=reason]", "loops")
		k.click("main button", "Stop…")
		k.click("main button", "Stop it now")
		tab.SeeText("main", "deploy-bot")
	})
	if a := g.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, agent); a.Status != http.StatusForbidden ||
		!strings.Contains(a.Body, "loops") {
		t.Errorf("the agent is not stopped: %d %s", a.Status, a.Body)
	}
}

// evidence downloads the archive of the page, and runs its script on it and on a changed copy.
func (g *gate) evidence() {
	g.T.Helper()
	address := strings.TrimPrefix(g.link("Evidence (zip)"), g.URL)
	a := g.Do(
		http.MethodGet,
		address,
		"",
		http.Header{"Cookie": {"portcullis=" + g.tab.Cookie("portcullis")}},
	)
	z, err := zip.NewReader(bytes.NewReader([]byte(a.Body)), int64(len(a.Body)))
	require.OK(g.T, err)
	dir := g.T.TempDir()
	require.OK(g.T, os.CopyFS(dir, z))
	run := func() (string, error) {
		out, err := exec.CommandContext(g.T.Context(), "python3", filepath.Join(dir, "verify.py")).
			CombinedOutput()
		return string(out), err
	}
	if said, err := run(); err != nil {
		g.T.Errorf("the script on the archive: %v: %s", err, said)
	}
	days, err := filepath.Glob(filepath.Join(dir, "audit", "*.jsonl"))
	if err != nil || len(days) == 0 {
		g.T.Fatalf("%v, %v", days, err)
	}
	last := days[len(days)-1]
	raw, err := os.ReadFile(last)
	require.OK(g.T, err)
	require.OK(g.T, os.Chmod(last, 0o600))
	require.OK(
		g.T,
		os.WriteFile(
			last,
			bytes.Replace(raw, []byte("sam@example.com"), []byte("ann@example.com"), 1),
			0o600,
		),
	)
	if said, err := run(); err == nil || !strings.Contains(said, "follows") {
		g.T.Errorf("the script on a changed copy: %v: %s", err, said)
	}
}

// link returns the address of the first link with a text.
func (g *gate) link(text string) string {
	g.T.Helper()
	return browsertest.Eval[string](
		g.tab,
		fmt.Sprintf(
			`[...document.querySelectorAll('main a')].find(a => a.innerText.includes(%q)).href`,
			text,
		),
	)
}

// A page that follows shows new lines without a reload, and goes on after a restart of the program.
func TestFollowInABrowser(t *testing.T) {
	g := openGate(t)
	tab, agent := g.tab, g.agent("deploy-bot", "sam@example.com")
	g.kim("/admin/audit")
	browsertest.Eval[bool](tab, `window.same = true`) // a reload would remove this variable
	tab.Click("[data-follow]")
	tab.SeeText("#following", "New lines appear here.")
	g.call(agent, "send_mail", `{"to":"x"}`)
	tab.SeeText("#lines tr:first-child", "deploy-bot")
	tab.Everywhere("audit-follow")
	tab.Forgive(`ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE`)
	g.Stop()
	tab.SeeText("#following", "The connection is lost.")
	g.Start()
	g.call(g.agent("build-bot", "ann@example.com"), "send_mail", `{"to":"x"}`)
	tab.SeeText("#lines", "build-bot")
	tab.SeeText("#following", "New lines appear here.")
	rows := len(tab.Texts("#lines tr"))
	g.call(agent, "send_mail", `{"to":"x"}`)
	tab.Until(
		"one more line, on the same page",
		fmt.Sprintf("window.same && document.querySelectorAll('#lines tr').length > %d", rows),
	)
}
