package functions_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// TestMain removes the program that tests build.
func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

const getFile = `{"name":"files:get_file","args":{}}`

// An operator signs the gateway in to a server with the command, at the admin function. The other
// functions use the token. One function refreshes the token, and the others use the new token. The
// roles of the template allow all calls, and a warm function sends no request to KMS.
func (g suite) signsInToServers(t *testing.T) {
	w := g.fixture(t)
	issuer := issuertest.New(t, issuertest.Habits{})
	w.Configure(`{"mcpServers":{"files":{"url":"` + filesOf(t, issuer) + `"}}}`)
	w.AllowSignIn()
	w.Sync(t)
	admin := lambdatest.NewFront(t, func() *lambdatest.Function { return w.Start(t, "admin") })
	said := login(t, admin.URL, w.Admin)
	if !strings.Contains(said, "signed in to files") {
		t.Fatalf("servers login prints %s", said)
	}
	w.Sync(t)

	first, second := w.Start(t, "mcp"), w.Start(t, "mcp")
	wantFile(t, first, "after the sign-in")
	w.proxy.Calls()
	wantFile(t, first, "with a warm connection")
	if calls := w.proxy.Calls(); uses(calls) != 0 {
		t.Errorf("a call with a warm connection makes %v", calls)
	}
	issuer.EndAccess()
	wantFile(t, first, "after the token ended early")
	if calls := w.proxy.Calls(); uses(calls) != 1 {
		t.Errorf("a call with a refresh makes %v, want 1 of KMS", calls)
	}
	wantFile(t, second, "after a refresh of another function")
	if n := issuer.Count(&issuer.Refreshed); n != 1 || issuer.Count(&issuer.Reused) != 0 {
		t.Errorf("%d refreshes, want 1; %d refresh tokens were used twice", n, issuer.Reused)
	}

	copied := w.copyVault(t)
	stolen := w.Start(t, "mcp", "PORTCULLIS_TABLE", copied)
	if r := stolen.Call("call_tool_read", json.RawMessage(getFile)); !r.IsError {
		t.Errorf("a call with a copied table answers %s", r.Text)
	}
	there := w.Start(t, "admin", "PORTCULLIS_TABLE", copied)
	if a := there.Send("/admin/servers/files", ""); !strings.Contains(
		a.Body,
		`"reason":"restored"`,
	) {
		t.Errorf("the page of the server with a copied table: %d %s", a.Status, a.Body)
	}

	issuer.EndAll()
	if r := first.Call("call_tool_read", json.RawMessage(getFile)); !r.IsError ||
		!strings.Contains(first.Output(), `"Reason":"credential_expired"`) {
		t.Errorf(
			"a call after the issuer ended the connection: %s; the log:\n%s",
			r.Text,
			first.Output(),
		)
	}
	if run := w.Start(t, "sync").Invoke([]byte(`{}`)); !strings.Contains(
		run.Output,
		`"Reason":"credential_expired"`,
	) {
		t.Errorf("a sync after the end of the connection does not count for the alarm: %s",
			run.Output)
	}
	if w.proxy.Checked() == 0 {
		t.Error("no call was checked against a role")
	}
}

// uses returns how many calls of KMS there are.
func uses(calls map[string]int) int {
	return calls["TrentService Encrypt"] + calls["TrentService Decrypt"]
}

// filesOf starts a server that requires tokens of the issuer, and returns its URL.
func filesOf(t *testing.T, i *issuertest.Issuer) string {
	t.Helper()
	return upstreamtest.New(t, upstreamtest.Options{
		Front: i.Front(
			"read",
		), Tools: []json.RawMessage{upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
	}).URL
}

// login runs servers login without a browser. The test is the person at the issuer.
func login(t *testing.T, url, credential string) string {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(),
		programtest.Build(t),
		"servers",
		"login",
		"files",
		"--url",
		url,
		"--no-browser",
	)
	cmd.Env = append(os.Environ(), "PORTCULLIS_TOKEN="+credential)
	stdin, err := cmd.StdinPipe()
	require.OK(t, err)
	stderr, err := cmd.StderrPipe()
	require.OK(t, err)
	var out strings.Builder
	cmd.Stdout = &out
	require.OK(t, cmd.Start())
	address := regexp.MustCompile(`https?://\S+/authorize\S+`)
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if found := address.FindString(line); found != "" {
			_, err = io.WriteString(stdin, issuertest.Browse(t, found)+"\n")
			require.OK(t, err)
			break
		}
		if err != nil {
			break // the command ended
		}
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("servers login: %v\n%s%s", err, out.String(), rest)
	}
	return out.String()
}

// wantFile calls the tool of the server.
func wantFile(t *testing.T, f *lambdatest.Function, when string) {
	t.Helper()
	if r := f.Call("call_tool_read", json.RawMessage(getFile)); r.IsError ||
		!strings.Contains(r.Text, "get_file") {
		t.Fatalf("a call %s answers %s; the log:\n%s", when, r.Text, f.Output())
	}
}

// copyVault copies the vault and the record of the tool into a new table, and returns its name.
func (w *fixture) copyVault(t *testing.T) string {
	t.Helper()
	name := emulator.Deploy(t, w.Endpoint, "copy-"+strings.ToLower(rand.Text()), repo.Path("infra/data.yaml"), map[string]string{"DeletionProtection": "false"})["TableName"]
	db := dynamodb.NewFromConfig(emulator.Config(w.Endpoint))
	from, to := dynamo.New(db, w.Env["PORTCULLIS_TABLE"], nil), dynamo.New(db, name, nil)
	docs, _, err := from.ListDocs(t.Context(), "CRED#gateway")
	require.OK(t, err)
	if len(docs) != 1 {
		t.Fatalf("the vault has %d documents", len(docs))
	}
	require.OK(t, to.PutDocs(t.Context(), document.Doc{Key: docs[0].Key, Data: docs[0].Data}))
	return name
}
