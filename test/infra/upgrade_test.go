package infra

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// dataFile is the template of the bucket and the table.
const dataFile = "infra/data.yaml"

// TestUpgrade deploys an earlier commit with data of each kind, upgrades the stack to this commit,
// and returns to the earlier commit. An agent calls a tool twice a second during both deploys.
// PORTCULLIS_UPGRADE_FROM is the earlier commit: docs/operate.md has the figures.
func TestUpgrade(t *testing.T) {
	commit := os.Getenv("PORTCULLIS_UPGRADE_FROM")
	if commit == "" {
		t.Skip("make upgrade runs this: PORTCULLIS_UPGRADE_FROM names no commit")
	}
	s := newStack(t)
	earlier := checkout(t, commit)
	tools := []json.RawMessage{}
	for name := range strings.FieldsSeq("approved shut granted open after allowed asked") {
		tools = append(tools, upstreamtest.Tool(name, "Do "+name+".", `{"readOnlyHint":true}`))
	}
	server := upstreamtest.New(t, upstreamtest.Options{Tools: tools})
	other := upstreamtest.New(t, upstreamtest.Options{Tools: tools})
	// The data has its own stack: MiniStack replaces a table of a nested stack at each change.
	data := map[string]string{"DeletionProtection": "false"}
	before := filepath.Join(earlier, dataFile)
	outputs := emulator.Deploy(t, s.endpoint, s.name+"-data", before, data)
	parameters := "AuthMode=token BootstrapSha256=" + token.Digest(adminToken) +
		" AllowedNetworks=127.0.0.0/8 SyncSchedule='rate(1 hour)'" +
		" ExistingBucket=" + outputs["BucketName"] + " ExistingTable=" + outputs["TableName"]
	s.deployFrom(earlier, parameters+" SavedQueries=false")
	s.make("push-config", "DIR="+s.shops(server.URL, other.URL), "BUCKET="+s.outputs["BucketName"])
	u := &upgrade{stack: s, t: t}
	u.fill()
	u.check("before the upgrade", false)
	if n := s.synced(); n >= 0 || u.indexes() != "decisions, feed" {
		t.Fatalf("%s has no earlier format: %d tools, indexes %s", commit, n, u.indexes())
	}

	u.during("upgrade of the functions", func() { s.deploy(parameters) })
	u.check("new functions, earlier table", false)
	if n := s.synced(); n != 2*len(tools) {
		t.Errorf("the catalog of the new format has %d tools, want %d", n, 2*len(tools))
	}
	u.during("upgrade of the table", func() {
		emulator.Update(t, s.endpoint, s.name+"-data", filepath.Join(root, dataFile), data)
	})
	u.check("after the upgrade", false)
	if got := u.indexes(); got != "decisions" {
		t.Errorf("indexes after the upgrade of the table: %s", got)
	}
	u.decideRequest(u.ask("allowed"), "allowed")
	u.later, u.laterBearer = u.ask("asked"), u.token("later")
	s.decide("after", "approve")
	s.Ask(http.StatusOK, "/admin/stop", `{"agent":"robot","reason":"by the new version"}`, nil)
	u.check("after new decisions", true)

	u.during("return of the functions", func() {
		s.deployFrom(earlier, parameters+" SavedQueries=false")
	})
	u.check("after the return", true)
}

// checkout returns a folder with the files of an earlier commit.
func checkout(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(
		t.Context(),
		"sh",
		"-c",
		`git archive "$0" | tar -x -C "$1"`,
		commit,
		dir,
	)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git archive %s: %v: %s", commit, err, out)
	}
	return dir
}

// deployFrom deploys the stack from a folder with the files of another commit.
func (s *stack) deployFrom(dir, parameters string) {
	s.t.Helper()
	here := s.dir
	s.dir = dir
	s.deploy(parameters)
	s.dir = here
}

// shops returns a folder with a config for two servers. The tools of shop wait for approval.
func (s *stack) shops(shop, other string) string {
	s.t.Helper()
	dir := s.folder(shop)
	config := `{"gateway":{"requests":true},"mcpServers":{` +
		`"shop":{"url":"` + shop + `","approval":"manual"},"other":{"url":"` + other + `"}}}`
	require.OK(
		s.t,
		os.WriteFile(filepath.Join(dir, "config", "mcp_config.json"), []byte(config), 0o600),
	)
	return dir
}

// decide makes a person decide about a tool of the server shop.
func (s *stack) decide(name, verb string) {
	s.t.Helper()
	var shown struct{ Hash string }
	s.Ask(http.StatusOK, "/admin/tools/shop/"+name, nil, &shown)
	s.Ask(http.StatusOK, "/admin/tools/shop/"+name+"/"+verb, `{"hash":"`+shown.Hash+`"}`, nil)
}

// An upgrade is a stack that gets another version, and the data that it must keep.
type upgrade struct {
	*stack
	t       *testing.T
	agent   agenttest.Client
	bearer  string // of the agent
	request string // id of the open request

	// what the later version stored; "": nothing yet
	later, laterBearer string // id of an open request; a second token of the agent's kind
}

// fill stores data of each kind: an approval, a disabled tool, tokens, a grant, an open request and
// a stop.
func (u *upgrade) fill() {
	local.Until(u.t, "the first sync ends, and the admin function knows the config", func() bool {
		return u.Send("/admin/tools/shop/approved", "").Status == http.StatusOK &&
			strings.Contains(u.Send("/admin/servers", "").Body, `"shop"`)
	})
	u.bearer = u.token("ci")
	u.agent = agenttest.Client{
		T:         u.t,
		URL:       strings.TrimSuffix(u.outputs["McpUrl"], "/mcp"),
		Transport: u.stack,
	}
	for _, name := range []string{"approved", "shut"} {
		u.decide(name, "approve")
	}
	u.decide("shut", "disable")
	u.decideRequest(u.ask("granted"), "allowed")
	u.request = u.ask("open")
	u.Ask(http.StatusOK, "/admin/stop", `{"server":"other","reason":"by the earlier version"}`, nil)
}

// token creates a token and returns the header with it.
func (u *upgrade) token(name string) string {
	var made struct{ Token string }
	u.Ask(
		http.StatusCreated,
		"/admin/tokens",
		`{"name":"`+name+`","servers":["*"],"tiers":["read","write"],"days":1}`,
		&made,
	)
	return "Authorization: Bearer " + made.Token
}

// indexes returns the names of the indexes of the table.
func (u *upgrade) indexes() string {
	out, err := dynamodb.NewFromConfig(emulator.Config(u.endpoint)).DescribeTable(u.t.Context(),
		&dynamodb.DescribeTableInput{TableName: aws.String(u.outputs["TableName"])})
	require.OK(u.t, err)
	var names []string
	for _, index := range out.Table.GlobalSecondaryIndexes {
		names = append(names, *index.IndexName)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ask makes the agent request a tool, and returns the id of the request.
func (u *upgrade) ask(name string) string {
	var asked struct {
		Requests []struct{ State, Request string }
	}
	local.Until(u.t, "the agent may request "+name, func() bool {
		r := u.agent.Call("request_access", `{"names":["shop:`+name+`"],"note":"needed"}`, u.bearer)
		return json.Unmarshal([]byte(r.Text), &asked) == nil && len(asked.Requests) == 1 &&
			asked.Requests[0].State == "open"
	})
	return asked.Requests[0].Request
}

// decideRequest makes a person decide about a request.
func (u *upgrade) decideRequest(id, verdict string) {
	var one struct{ State, Hash string }
	u.Ask(http.StatusOK, "/admin/requests/"+id, nil, &one)
	u.Ask(
		http.StatusOK,
		"/admin/requests/"+id+"/decide",
		`{"verdict":"`+verdict+`","hash":"`+one.Hash+`","minutes":60}`,
		nil,
	)
}

// check compares what agents and people see with the data. later says whether the decisions that
// were stored by the later version must also be in force.
func (u *upgrade) check(when string, later bool) {
	for id, want := range map[string]bool{
		"shop:approved": true, "shop:shut": false, "shop:granted": true, "shop:open": false,
		"shop:after": later, "shop:allowed": later, "shop:asked": false, "other:approved": false,
	} {
		r := u.agent.Call("call_tool_read", `{"name":"`+id+`","args":{}}`, u.bearer)
		if r.IsError == want {
			u.t.Errorf("%s: %s is callable: %v, want %v: %s", when, id, !r.IsError, want, r.Text)
		}
	}
	for path, want := range map[string]string{
		"/admin/requests/" + u.request: `"state":"open"`,
		"/admin/stop":                  "by the earlier version", "/admin/tokens": `"ci"`,
	} {
		if a := u.Send(path, ""); !strings.Contains(a.Body, want) {
			u.t.Errorf("%s: %s answers %d %s, want %s", when, path, a.Status, a.Body, want)
		}
	}
	if later {
		if a := u.Send("/admin/requests/"+u.later, ""); !strings.Contains(
			a.Body,
			`"state":"open"`,
		) {
			u.t.Errorf("%s: the later request: %d %s", when, a.Status, a.Body)
		}
		r := u.agent.Call("call_tool_read", `{"name":"shop:approved","args":{}}`, u.laterBearer)
		if r.IsError {
			u.t.Errorf("%s: a call with the later token: %s", when, r.Text)
		}
	}
	if a := u.Send("/admin/stop", ""); later != strings.Contains(a.Body, "by the new version") {
		u.t.Errorf("%s: stops are %s", when, a.Body)
	}
}

// during runs deploy while the agent calls a tool twice a second. Each call must succeed.
func (u *upgrade) during(what string, deploy func()) {
	stop, ended := make(chan struct{}), sync.WaitGroup{}
	calls, failed, slowest := 0, []string(nil), time.Duration(0)
	ended.Go(func() {
		for {
			began := time.Now()
			err := u.call()
			took := time.Since(began)
			calls, slowest = calls+1, max(slowest, took)
			if err != nil {
				failed = append(
					failed,
					fmt.Sprintf(
						"%s after %v: %v",
						began.Format(time.TimeOnly),
						took.Round(time.Millisecond),
						err,
					),
				)
			}
			select {
			case <-stop:
				return
			case <-time.After(max(0, 500*time.Millisecond-took)):
			}
		}
	})
	began := time.Now()
	deploy()
	took := time.Since(began)
	close(stop)
	ended.Wait()
	u.t.Logf(
		"%s: %v, %d calls, %d failed, the slowest %v",
		what,
		took.Round(time.Second),
		calls,
		len(failed),
		slowest.Round(time.Millisecond),
	)
	if calls == 0 || len(failed) > 0 {
		u.t.Errorf(
			"%s: %d of %d calls failed:\n%s",
			what,
			len(failed),
			calls,
			strings.Join(failed, "\n"),
		)
	}
}

// call calls the approved tool once.
func (u *upgrade) call() error {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` +
		`"name":"call_tool_read","arguments":{"name":"shop:approved","args":{}}}}`
	r, err := http.NewRequestWithContext(
		u.t.Context(),
		http.MethodPost,
		u.agent.URL+"/mcp",
		strings.NewReader(body),
	)
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(u.bearer, ": ")
	r.Header.Set(name, value)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := u.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var out struct{ Result struct{ IsError bool } }
	data := json.NewDecoder(answer.Body)
	var raw json.RawMessage
	if err := data.Decode(&raw); err != nil {
		return fmt.Errorf("%d: %w", answer.StatusCode, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil || answer.StatusCode != http.StatusOK ||
		out.Result.IsError ||
		!strings.Contains(string(raw), `"result"`) {
		return fmt.Errorf("%d %s", answer.StatusCode, raw)
	}
	return nil
}
