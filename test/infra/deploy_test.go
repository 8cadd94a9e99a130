package infra

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// TestDeployedStack builds, deploys and configures template.yaml with the Makefile. Then an agent
// finds and requests a tool, and a person approves it.
func TestDeployedStack(t *testing.T) {
	s := newStack(t)
	tools := []json.RawMessage{upstreamtest.Tool("send_mail", "Send a mail to somebody.", `{"destructiveHint":false}`, "to")}
	server := upstreamtest.New(t, upstreamtest.Options{Tools: tools})
	parameters := "AuthMode=none BootstrapSha256=" + token.Digest(adminToken) + " AllowedNetworks=127.0.0.0/8 SyncSchedule='rate(1 hour)' Audit=true SignIn=true KmsKeyArn=" + key + " "
	s.deploy("AuthMode=token") // a first deploy needs no other parameter
	s.deploy(parameters)
	if said := s.describe(); !strings.Contains(said, "<ParameterValue>rate(1 hour)</ParameterValue>") {
		t.Errorf("the deploy changed a value with a space: %s", said)
	}

	s.checkGuided()
	if store := s.outputs["AuditStore"]; !strings.HasPrefix(store, "s3://") || !strings.HasSuffix(store, "/audit/, Athena table portcullis_audit") {
		t.Errorf("output AuditStore = %q", store)
	}

	said := s.make("push-config", "DIR="+s.folder(server.URL), "BUCKET="+s.outputs["BucketName"])
	if !strings.Contains(said, "config/mcp_config.json  version ") {
		t.Errorf("push-config printed %q", said)
	}
	local.Until(t, "the push of a config starts a sync", func() bool { return s.synced() == 1 })

	agent := s.client(t.Context())
	defer agent.Close()
	found, _ := s.call(agent, "retrieve_tools", map[string]any{"query": "send a mail", "include_disabled": true})
	if !strings.Contains(found, `"status":"pending_approval"`) || strings.Contains(found, "Send a mail to somebody") {
		t.Errorf("search before the approval: %s", found)
	}
	call := map[string]any{"name": "mail:send_mail", "args": map[string]any{"to": "ann"}}
	if text, refused := s.call(agent, "call_tool_write", call); !refused || !strings.Contains(text, s.outputs["AdminUrl"]+"/tools/mail/send_mail") {
		t.Errorf("call before the approval: %s", text)
	}

	s.checkAsking(agent, call)
	if text, refused := s.call(agent, "call_tool_write", call); refused || text != "send_mail" {
		t.Errorf("call after the approval: %s", text)
	}

	s.checkPath()

	server.SetTools(append(tools, upstreamtest.Tool("read_mail", "Read the mails.", `{"readOnlyHint":true}`)))
	var started struct{ Pending bool }
	s.Ask(202, "/admin/sync", "{}", &started)
	if !started.Pending {
		t.Error("the answer does not report that the sync is pending")
	}
	local.Until(t, "the requested sync runs", func() bool { return s.synced() == 2 })

	const topics = " NotifyTopics=arn:aws:sns:us-east-1:123456789012:gate,arn:aws:sns:us-east-1:123456789012:people"
	s.checkStreaming(parameters+"MemorySize=512"+topics, call)
	s.checkRest(parameters+"MemorySize=512", call)
	var audit struct {
		Entries []struct{ Action, Actor string }
	}
	s.Ask(200, "/admin/audit", nil, &audit)
	if text, _ := json.Marshal(audit); !strings.Contains(string(text), `{"Action":"approve","Actor":"bootstrap"}`) {
		t.Errorf("audit after the updates: %s", text)
	}
	s.checkSignIn(server.URL)
	parameters += " MemorySize=128 AlarmTopicArn=" + newTopic(t, s.endpoint, "alarms", "", "")
	s.checkAdopting(parameters, call, server.URL)
	s.checkAlarms()
}

// checkAsking makes an agent request a pending tool through the mcp function, and a person approve
// the request through the admin function.
func (s *stack) checkAsking(agent *mcp.ClientSession, call map[string]any) {
	s.t.Helper()
	var asked struct {
		Requests []struct{ State, Request string }
	}
	said, _ := s.call(agent, "request_access", map[string]any{"names": []string{"mail:send_mail"}, "note": "the user wants it sent"})
	if err := json.Unmarshal([]byte(said), &asked); err != nil || len(asked.Requests) != 1 || asked.Requests[0].State != "open" {
		s.t.Fatalf("request_access answers %s (%v)", said, err)
	}
	id := asked.Requests[0].Request
	if text, refused := s.call(agent, "call_tool_write", call); !refused || !strings.Contains(text, id) {
		s.t.Errorf("call after the request: %s", text)
	}
	var one struct{ State, Hash, Note string }
	s.Ask(200, "/admin/requests/"+id, nil, &one)
	if one.State != "open" || one.Note != "the user wants it sent" {
		s.t.Errorf("request before the decision: %+v", one)
	}
	s.Ask(200, "/admin/requests/"+id+"/decide", `{"verdict":"approved","hash":"`+one.Hash+`"}`, &one)
	if one.State != "approved" {
		s.t.Errorf("request after the decision: %+v", one)
	}
}

// describe returns CloudFormation's description of the stack.
func (s *stack) describe() string {
	s.t.Helper()
	form := url.Values{"Action": {"DescribeStacks"}, "StackName": {s.name}, "Version": {"2010-05-15"}}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.endpoint, strings.NewReader(form.Encode()))
	require.OK(s.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20261121/us-east-1/cloudformation/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	require.OK(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("DescribeStacks: %d %s (%v)", answer.StatusCode, body, err)
	}
	return string(body)
}

// checkStreaming moves the gateway to a Function URL. The update keeps everything else.
func (s *stack) checkStreaming(parameters string, call map[string]any) {
	s.t.Helper()
	before, api := s.outputs, s.outputs["AdminUrl"]
	s.deploy(parameters + " Streaming=url")
	for name, value := range before {
		if name != "McpUrl" && name != "ClientConfig" && s.outputs[name] != value {
			s.t.Errorf("output %s was %q, and is %q after an update", name, value, s.outputs[name])
		}
	}
	url := s.outputs["McpUrl"]
	if !strings.Contains(url, ".lambda-url.") || !strings.Contains(s.outputs["ClientConfig"], url) || s.outputs["AdminUrl"] != api {
		s.t.Fatalf("outputs with Streaming=url: %v", s.outputs)
	}
	agent := s.client(s.t.Context())
	defer agent.Close()
	if text, refused := s.call(agent, "call_tool_write", call); refused || text != "send_mail" {
		s.t.Errorf("call through the Function URL: %s", text)
	}
	read := map[string]any{"name": "mail:read_mail", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", read); !refused || !strings.Contains(text, api+"/tools/mail/read_mail") {
		s.t.Errorf("the link does not lead to the API: %s", text)
	}
	if a := s.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.Status != http.StatusNotFound {
		s.t.Errorf("the API still answers /mcp: %d %s", a.Status, a.Body)
	}
}

// checkRest moves the gateway behind a REST API with a domain, and into a VPC. It skips streamed
// answers and the web ACL, which the emulator does not support.
func (s *stack) checkRest(parameters string, call map[string]any) {
	s.t.Helper()
	before := s.outputs
	s.deploy(parameters + " Streaming=none FrontDoor=rest WebAclRate=0 DomainName=gate.example.com CertificateArn=" + certificate +
		" VpcSubnetIds=subnet-0a,subnet-0b VpcSecurityGroupIds=sg-0a")
	if s.outputs["McpUrl"] != "https://gate.example.com/mcp" || s.outputs["AdminUrl"] != "https://gate.example.com/admin" || s.outputs["ApiId"] == before["ApiId"] || s.outputs["DomainTarget"] == "" {
		s.t.Fatalf("outputs with a REST API: %v", s.outputs)
	}
	agent := s.client(s.t.Context())
	defer agent.Close()
	if text, refused := s.call(agent, "call_tool_write", call); refused || text != "send_mail" {
		s.t.Errorf("call through the REST API: %s", text)
	}
	read := map[string]any{"name": "mail:read_mail", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", read); !refused || !strings.Contains(text, "https://gate.example.com/admin/tools/mail/read_mail") {
		s.t.Errorf("the link does not lead to the domain: %s", text)
	}
	var health struct{ Status string }
	s.Ask(200, "/healthz", nil, &health)
	if health.Status != "ok" {
		s.t.Errorf("health with a REST API: %q", health.Status)
	}
}

// checkPath checks the address that `make local-deploy` prints for clients that cannot set a host.
func (s *stack) checkPath() {
	s.t.Helper()
	c := agenttest.Client{T: s.t, URL: s.endpoint + "/_aws/execute-api/" + s.outputs["ApiId"] + "/$default"}
	if a := c.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"retrieve_tools"`) {
		s.t.Errorf("%s answers %d %s", c.URL, a.Status, a.Body)
	}
}

// folder returns a folder with a config for one server whose tools wait for approval.
func (s *stack) folder(url string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	path := filepath.Join(dir, "config", "mcp_config.json")
	require.OK(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.OK(s.t, os.WriteFile(path, []byte(`{"gateway":{"requests":true},"mcpServers":{"mail":{"url":"`+url+`","approval":"manual"}}}`), 0o644))
	return dir
}

// logGroups returns the names of the log groups of all stacks with the name of the stack, sorted,
// without the group in AuditLines: the emulator ignores the DeletionPolicy in a nested stack.
func (s *stack) logGroups() (names []string) {
	s.t.Helper()
	logs := awsjson.New(emulator.Config(s.endpoint), "logs")
	var out struct {
		LogGroups []struct {
			LogGroupName string `json:"logGroupName"`
		} `json:"logGroups"`
	}
	require.OK(s.t, logs.Call(s.t.Context(), "Logs_20140328.DescribeLogGroups", struct{}{}, &out))
	for _, g := range out.LogGroups {
		if strings.Contains(g.LogGroupName, s.name) && !strings.Contains(g.LogGroupName, "AuditLines") {
			names = append(names, g.LogGroupName)
		}
	}
	slices.Sort(names)
	return names
}

// synced returns how many tools the stored catalog contains, or -1 if there is no catalog.
func (s *stack) synced() int {
	o, err := emulator.S3(s.endpoint).GetObject(s.t.Context(), &s3.GetObjectInput{Bucket: aws.String(s.outputs["BucketName"]), Key: aws.String("catalog/current-2.json")})
	if err != nil {
		return -1
	}
	defer o.Body.Close()
	var current struct{ Tools int }
	if err := json.NewDecoder(o.Body).Decode(&current); err != nil {
		return -1
	}
	return current.Tools
}

// checkGuided answers each question of `sam deploy --guided` with Enter. The deploy must fail with
// the message that AuthMode is empty.
func (s *stack) checkGuided() {
	s.t.Helper()
	config := filepath.Join(s.t.TempDir(), "samconfig.toml")
	require.OK(s.t, os.WriteFile(config, []byte("version = 0.1\n"), 0o600))
	cmd := exec.CommandContext(s.t.Context(), sam(s.t), "deploy", "--guided", "--template-file", filepath.Join(s.build, "template.yaml"), "--config-file", config, "--stack-name", s.name+"-guided")
	cmd.Dir, cmd.Env = root, append(os.Environ(), append(s.env, "SAM_CLI_TELEMETRY=0", "AWS_DEFAULT_REGION=us-east-1")...)
	cmd.Stdin = strings.NewReader(strings.Repeat("\n", 200))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "AuthMode is empty. Set it") ||
		!strings.Contains(string(out), "Parameter AuthMode []: ") {
		s.t.Errorf("sam deploy --guided with all defaults ends with %v:\n%s", err, out)
	}
}

// checkAdopting deletes the stack and deploys another stack of the same name, with the same bucket
// and table. The log groups of the deleted stack remain. The approvals stay valid, and a config that
// is pushed to the bucket starts a sync of the new stack.
func (s *stack) checkAdopting(parameters string, call map[string]any, server string) {
	s.t.Helper()
	bucket, table := s.outputs["BucketName"], s.outputs["TableName"]
	before := s.logGroups()
	emulator.Destroy(s.t, s.endpoint, s.name)
	if after := s.logGroups(); len(before) < 4 || !slices.Equal(before, after) {
		s.t.Errorf("log groups before the deletion: %v, after it: %v", before, after)
	}
	s.deploy(parameters + " ExistingBucket=" + bucket + " ExistingTable=" + table)
	if n := len(s.logGroups()); n <= len(before) {
		s.t.Errorf("the new stack has no log groups: %d", n)
	}
	if s.outputs["BucketName"] != bucket || s.outputs["TableName"] != table {
		s.t.Fatalf("the new stack has %v, want %s and %s", s.outputs, bucket, table)
	}
	agent := s.client(s.t.Context())
	defer agent.Close()
	if text, refused := s.call(agent, "call_tool_write", call); refused || text != "send_mail" {
		s.t.Errorf("call with the adopted data: %s", text)
	}
	read := map[string]any{"name": "mail:read_mail", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", read); !refused {
		s.t.Errorf("the gateway allows an unapproved call: %s", text)
	}
	if n := s.synced(); n != 2 {
		s.t.Errorf("the catalog has %d tools", n)
	}
	dir := s.folder(server)
	require.OK(s.t, os.WriteFile(filepath.Join(dir, "config", "mcp_config.json"), []byte(`{"mcpServers":{}}`), 0o600))
	s.make("push-config", "DIR="+dir, "BUCKET="+bucket)
	local.Until(s.t, "the push of a config into the adopted bucket starts a sync", func() bool { return s.synced() == 0 })
}
