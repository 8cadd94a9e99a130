package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A council is a gateway whose tools are held by every lock there is, beside which
// the operator's rules come and go.
type council struct {
	*program
	mode    string
	servers map[string]string // name → URL
}

func newCouncil(t *testing.T, mode string) *council {
	t.Helper()
	const (
		closed  = `{"openWorldHint":false}`
		reads   = `{"readOnlyHint":true,"openWorldHint":false}`
		writes  = `{"destructiveHint":false,"openWorldHint":false}`
		browses = `{"readOnlyHint":true}`
	)
	c := &council{mode: mode, servers: map[string]string{}}
	for name, tools := range map[string][][2]string{
		"files":   {{"create_file", writes}, {"delete_file", closed}, {"get_file", reads}},
		"infra":   {{"deploy_service", ""}, {"restart_prod_db", ""}, {"show_prod_db", browses}},
		"payroll": {{"get_salary", reads}, {"set_salary", closed}},
		"web":     {{"fetch", browses}},
		"attic":   {{"delete_box", ""}, {"get_box", reads}},
	} {
		var definitions []json.RawMessage
		for _, x := range tools {
			definitions = append(definitions, upstreamtest.Tool(x[0], "Do "+strings.ReplaceAll(x[0], "_", " ")+".", x[1]))
		}
		c.servers[name] = upstreamtest.New(t, upstreamtest.Options{Tools: definitions}).URL
	}
	dir := t.TempDir()
	writeConfig(t, dir, c.config(map[string]string{"files": `, "approval": "manual"`}, ""))
	c.program = start(t, dir)
	for _, path := range []string{"infra/deploy_service", "infra/show_prod_db", "files/get_file"} {
		c.json(http.MethodPost, "/admin/tools/"+path+"/disable", map[string]any{}, http.StatusOK, nil)
	}
	return c
}

// config is the council's config: settings of single servers, and the rest of the file.
func (c *council) config(settings map[string]string, rest string) string {
	var list []string
	for name, url := range c.servers {
		list = append(list, fmt.Sprintf(`%q: {"url": %q%s}`, name, url, settings[name]))
	}
	return fmt.Sprintf(`{"mcpServers": {%s}, "gateway": {"mode": %q}%s}`, strings.Join(list, ", "), c.mode, rest)
}

// The words by which a user is told what to do, and the operator's.
var (
	usersRemedy = regexp.MustCompile(`(?i)ask the user|portcullis page|/admin/|re-?enabl|approv|review|how to unlock`)
	operators   = "The user cannot override it"
)

// What the operator denies is told to be the operator's alone, whatever else would
// lock the tool, by every means by which an agent or a person asks.
func TestADenialNeverComesWithTheUsersRemedy(t *testing.T) {
	rules := map[string]string{"no rules": ""}
	files, err := filepath.Glob("../../pkg/policy/testdata/policies/*.cedar")
	if err != nil || len(files) != 10 {
		t.Fatalf("found %d policies (%v), want 10", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rules[filepath.Base(file)] = string(src)
	}
	lists := map[string]string{
		"a list of what is disabled": `, "disabled_tools": ["*"]`,
		"a list of what is enabled":  `, "enabled_tools": ["none"]`,
		"the global list":            "",
	}
	for _, mode := range []string{"search", "direct"} {
		c := newCouncil(t, mode)
		seen := map[string]int{}
		hold := func(name string) {
			t.Run(mode+"/"+name, func(t *testing.T) {
				c := *c
				program := *c.program
				c.program, program.t = &program, t
				for status, n := range c.holdAll(t) {
					seen[status] += n
				}
			})
		}
		settings := map[string]string{"files": `, "approval": "manual"`, "attic": `, "enabled": false`}
		c.configure(c.config(settings, ""))
		for name, text := range rules {
			writePolicy(t, c.dir, text)
			c.json(http.MethodPost, "/admin/sync", map[string]any{}, http.StatusOK, nil)
			hold(name)
		}
		writePolicy(t, c.dir, "")
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

// holdAll holds every answer on every tool to its status, and counts the statuses.
func (c *council) holdAll(t *testing.T) map[string]int {
	t.Helper()
	var all struct {
		Tools []struct{ ID, Status string }
	}
	c.json(http.MethodGet, "/admin/tools", nil, http.StatusOK, &all)
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
				t.Errorf("%s, %s: %q is said of what the operator denies: %s", x.ID, where, hit, text)
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

// says returns what is said of a locked tool, by where it is said.
func (c *council) says(t *testing.T, id, status string) map[string]string {
	t.Helper()
	said := map[string]string{}
	server, name, _ := strings.Cut(id, ":")
	var admin struct {
		Status, Remediation string
	}
	c.json(http.MethodGet, "/admin/tools/"+server+"/"+name, nil, http.StatusOK, &admin)
	said["admin API"] = admin.Remediation
	said["page"] = c.page(t, server, name, status)
	if c.mode == "direct" {
		said["direct call"] = string(c.call(direct(id), map[string]any{}).Raw)
		return said
	}
	for _, variant := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
		said[variant] = string(c.call(variant, map[string]any{"name": id}).Raw)
	}
	said["describe_tools"] = c.call("describe_tools", map[string]any{"names": []string{id}}).Text
	var found struct {
		Disabled    []struct{ Name, Status, Note string }
		Remediation map[string]string
	}
	r := c.call("retrieve_tools", map[string]any{"query": strings.ReplaceAll(name, "_", " "), "include_disabled": true})
	if err := json.Unmarshal([]byte(r.Text), &found); err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Disabled {
		if d.Name == id {
			said["retrieve_tools"] = d.Note + " " + found.Remediation[d.Status]
		}
	}
	if said["retrieve_tools"] == "" {
		t.Errorf("%s is not found: %s", id, r.Text)
	}
	for where, text := range said {
		if status != admin.Status || strings.HasPrefix(where, "call") && !strings.Contains(text, status) {
			t.Errorf("%s is %s for admin and %s says %s", id, admin.Status, where, text)
		}
	}
	return said
}

// page returns what the page of a tool says that agents are told, and that it offers
// nobody to open what the operator denies.
func (c *council) page(t *testing.T, server, name, status string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/admin/tools/"+server+"/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	html, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	opens := regexp.MustCompile(`value="(approve|enable)"`).Match(html)
	if status == "disabled_by_config" {
		if opens {
			t.Errorf("the page of %s:%s offers to open what the operator denies", server, name)
		}
		for deed, body := range map[string]any{"enable": map[string]any{}, "approve": map[string]any{"hash": strings.Repeat("0", 64)}} {
			var refused struct{ Detail string }
			c.json(http.MethodPost, "/admin/tools/"+server+"/"+name+"/"+deed, body, http.StatusConflict, &refused)
			if !strings.Contains(refused.Detail, "only the operator can change that") {
				t.Errorf("%s of %s:%s is refused with %q", deed, server, name, refused.Detail)
			}
		}
	} else if theirs := status == "disabled_by_user" || status == "pending_approval"; theirs && !opens {
		t.Errorf("the page of %s:%s does not offer what the user is told to do", server, name)
	}
	told := regexp.MustCompile(`Agents are told: ([^<]*)<`).FindSubmatch(html)
	if told == nil {
		t.Fatalf("the page of %s:%s does not say what agents are told:\n%s", server, name, html)
	}
	return string(told[1])
}
