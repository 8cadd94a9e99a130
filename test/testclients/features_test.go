package testclients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// version returns the client's pinned version.
func (c Client) version(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir(), c.Pin.file))
	require.OK(t, err)
	_, after, found := strings.Cut(string(data), c.Pin.before)
	end := strings.IndexAny(after, "\" \n")
	if !found || end < 1 {
		t.Fatalf("%s has no version after %q", c.Pin.file, c.Pin.before)
	}
	return after[:end]
}

// The table of docs/clients.md describes what the clients do in TestClients and TestUnlock. The
// page names the versions of the frameworks too.
func TestClientsTable(t *testing.T) {
	protocols := map[string][]string{}
	for _, u := range users {
		protocols[u.client] = append(protocols[u.client], u.version)
	}
	var b strings.Builder
	b.WriteString("| client | version | protocol")
	columns := []feature{progress, templates, changes, questions}
	for _, f := range columns {
		fmt.Fprintf(&b, " | %s", f)
	}
	b.WriteString(" |\n|---|---|---" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, c := range Clients {
		fmt.Fprintf(
			&b,
			"| %s | %s | %s",
			c.Name,
			c.version(t),
			strings.Join(protocols[c.Name], ", "),
		)
		for _, f := range columns {
			fmt.Fprintf(&b, " | %s", map[bool]string{true: "–", false: "yes"}[c.lacks(f)])
		}
		b.WriteString(" |\n")
	}
	doc, err := os.ReadFile(repo.Path("docs/clients.md"))
	require.OK(t, err)
	if !strings.Contains(string(doc), "\n\n"+b.String()+"\n") {
		t.Errorf("docs/clients.md lacks the table\n%s", b.String())
	}
	for _, c := range Frameworks {
		if name := c.Name + " " + c.version(t); !strings.Contains(string(doc), name) {
			t.Errorf("docs/clients.md lacks %q", name)
		}
	}
}
