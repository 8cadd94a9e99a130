package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An everyLock is a gateway whose tools have every kind of lock. The test adds and removes denials
// of the operator.
type everyLock struct {
	*program
	mode    string
	servers servers
}

func newEveryLock(t *testing.T, mode string) *everyLock {
	t.Helper()
	const (
		closed  = `{"openWorldHint":false}`
		reads   = `{"readOnlyHint":true,"openWorldHint":false}`
		writes  = `{"destructiveHint":false,"openWorldHint":false}`
		browses = `{"readOnlyHint":true}`
	)
	c := &everyLock{mode: mode}
	all := map[string][]json.RawMessage{}
	for name, tools := range map[string][][2]string{
		"files":   {{"create_file", writes}, {"delete_file", closed}, {"get_file", reads}},
		"infra":   {{"deploy_service", ""}, {"restart_prod_db", ""}, {"show_prod_db", browses}},
		"payroll": {{"get_salary", reads}, {"set_salary", closed}},
		"web":     {{"fetch", browses}},
		"attic":   {{"delete_box", ""}, {"get_box", reads}},
	} {
		for _, x := range tools {
			all[name] = append(all[name], upstreamtest.Tool(x[0], "Do "+strings.ReplaceAll(x[0], "_", " ")+".", x[1]))
		}
	}
	c.servers = upstreamtest.Fleet(t, all, upstreamtest.Options{})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, c.config(map[string]string{"files": `, "approval": "manual"`}, ""))
	c.program = start(t, dir)
	for _, path := range []string{"infra/deploy_service", "infra/show_prod_db", "files/get_file"} {
		c.Ask(http.StatusOK, "/admin/tools/"+path+"/disable", `{}`, nil)
	}
	return c
}

// config returns a config with settings of single servers, and the rest of the file.
func (c *everyLock) config(settings map[string]string, rest string) string {
	return c.servers.config(func(name string) string { return settings[name] }, fmt.Sprintf(`, "gateway": {"mode": %q}%s`, c.mode, rest))
}

// Texts about a remedy by the user, and about a lock that only the operator can change.
var (
	usersRemedy = regexp.MustCompile(`(?i)ask the user|portcullis page|/admin/|re-?enabl|approv|review|how to unlock`)
	operators   = "The user cannot override it"
)

// Only the operator can remove their denial of a tool, even if other locks apply. All answers to
// agents and people say so.
func TestRemedyOfADenial(t *testing.T) {
	rules := map[string]string{"no rules": ""}
	files, err := filepath.Glob("../../pkg/rules/policy/testdata/policies/*.cedar")
	if err != nil || len(files) != 10 {
		t.Fatalf("found %d policies (%v), want 10", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.OK(t, err)
		rules[filepath.Base(file)] = string(src)
	}
	lists := map[string]string{
		"a list of what is disabled": `, "disabled_tools": ["*"]`,
		"a list of what is enabled":  `, "enabled_tools": ["none"]`,
		"the global list":            "",
	}
	for _, mode := range []string{"search", "direct"} {
		c := newEveryLock(t, mode)
		seen := map[string]int{}
		hold := func(name string) {
			t.Run(mode+"/"+name, func(t *testing.T) {
				c := *c
				c.program = c.with(t)
				for status, n := range c.holdAll(t) {
					seen[status] += n
				}
			})
		}
		settings := map[string]string{"files": `, "approval": "manual"`, "attic": `, "enabled": false`}
		c.configure(c.config(settings, ""))
		for name, text := range rules {
			programtest.WritePolicy(t, c.dir, text)
			c.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
			hold(name)
		}
		programtest.WritePolicy(t, c.dir, "")
		for name, list := range lists {
			more := map[string]string{"web": list}
			for server, s := range settings {
				more[server] = s + list
			}
			rest := ""
			if list == "" {
				rest = `, "tools": {"disabled": ["files:*", "deploy_service", "attic:get_box"]}`
			}
			c.configure(c.config(more, rest))
			hold(name)
		}
		for _, status := range []string{"callable", "server_disabled", "disabled_by_config", "disabled_by_user", "pending_approval", "disabled_unknown"} {
			if seen[status] == 0 {
				t.Errorf("%s: no tool was %s", mode, status)
			}
		}
	}
}

// holdAll checks every answer about every tool against its status, and counts the statuses.
func (c *everyLock) holdAll(t *testing.T) map[string]int {
	t.Helper()
	var all struct {
		Tools []struct{ ID, Status string }
	}
	c.Ask(http.StatusOK, "/admin/tools", nil, &all)
	if len(all.Tools) != 11 {
		t.Fatalf("%d tools, want 11", len(all.Tools))
	}
	counts := map[string]int{}
	for _, x := range all.Tools {
		counts[x.Status]++
		if x.Status == "callable" {
			continue
		}
		said := c.says(t, x.ID, x.Status)
		for where, text := range said {
			denied := x.Status == "disabled_by_config"
			if hit := usersRemedy.FindString(text); denied && hit != "" {
				t.Errorf("%s, %s: the text about a denied tool contains %q: %s", x.ID, where, hit, text)
			}
			if strings.Contains(text, operators) != denied {
				t.Errorf("%s is %s, and %s says: %s", x.ID, x.Status, where, text)
			}
			if theirs := x.Status == "disabled_by_user" || x.Status == "pending_approval"; usersRemedy.MatchString(text) != theirs {
				t.Errorf("%s is %s, and %s says: %s", x.ID, x.Status, where, text)
			}
		}
	}
	return counts
}

// says returns the texts about a locked tool, by their source.
func (c *everyLock) says(t *testing.T, id, status string) map[string]string {
	t.Helper()
	said := map[string]string{}
	server, name, _ := strings.Cut(id, ":")
	var admin struct {
		Status, Remediation string
	}
	c.Ask(http.StatusOK, "/admin/tools/"+server+"/"+name, nil, &admin)
	said["admin API"] = admin.Remediation
	said["page"] = c.page(t, server, name, status)
	if c.mode == "direct" {
		said["direct call"] = c.Call(direct(id), `{}`).Raw
		return said
	}
	for _, variant := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
		said[variant] = c.Call(variant, map[string]any{"name": id}).Raw
	}
	said["describe_tools"] = c.Call("describe_tools", map[string]any{"names": []string{id}}).Text
	var found struct {
		Disabled    []struct{ Name, Status, Note string }
		Remediation map[string]string
	}
	c.CallJSON("retrieve_tools", map[string]any{"query": strings.ReplaceAll(name, "_", " "), "include_disabled": true}, &found)
	for _, d := range found.Disabled {
		if d.Name == id {
			said["retrieve_tools"] = d.Note + " " + found.Remediation[d.Status]
		}
	}
	if said["retrieve_tools"] == "" {
		t.Errorf("%s is not found: %+v", id, found)
	}
	for where, text := range said {
		if status != admin.Status || strings.HasPrefix(where, "call") && !strings.Contains(text, status) {
			t.Errorf("the status of %s is %s at /admin, but %s says %s",
				id, admin.Status, where, text)
		}
	}
	return said
}

// page returns the text for agents that the console shows on the page of a tool. It checks that the
// page has no button that removes the operator's denial.
func (c *everyLock) page(t *testing.T, server, name, status string) string {
	t.Helper()
	html := c.Send("/admin/tools/"+server+"/"+name, "", "Accept: text/html").Body
	opens := regexp.MustCompile(`value="(approve|enable)"`).MatchString(html)
	if status == "disabled_by_config" {
		if opens {
			t.Errorf("the page of %s:%s has a button that unlocks a tool that the operator denies",
				server, name)
		}
		for action, body := range map[string]any{"enable": map[string]any{}, "approve": map[string]any{"hash": strings.Repeat("0", 64)}} {
			var refused struct{ Detail string }
			c.Ask(http.StatusConflict, "/admin/tools/"+server+"/"+name+"/"+action, body, &refused)
			if !strings.Contains(refused.Detail, "nly the operator can change that") {
				t.Errorf("%s of %s:%s is refused with %q", action, server, name, refused.Detail)
			}
		}
	} else if theirs := status == "disabled_by_user" || status == "pending_approval"; theirs && !opens {
		t.Errorf("the page of %s:%s does not offer the action of the remediation", server, name)
	}
	told := regexp.MustCompile(`Agents see: ([^<]*)<`).FindStringSubmatch(html)
	if told == nil {
		t.Fatalf("the page of %s:%s does not show the text for agents:\n%s", server, name, html)
	}
	return told[1]
}
