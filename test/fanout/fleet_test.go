// Package fanout runs the built sync function as template.yaml deploys it with SyncMode=fanout: a
// function that plans, workers, and a function that assembles. The queues come from
// infra/fanout.yaml on an emulator, with timeouts of seconds. The functions receive messages as
// they do from Lambda. A proxy checks each AWS call against the role of the function.
//
// `make lanes` runs it.
package fanout

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/roletest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A size is the size of a fleet.
type size struct{ servers, workers int }

var sizes = map[string]size{"small": {120, 4}, "full": {1000, 8}}

const tools = 3 // tools of each server

// again is the visibility timeout of messages in seconds: a queue then delivers the message of a
// failed function again.
const again = "5"

// Events that start the planning function.
const (
	asked = `{"source":"portcullis.admin"}` // loads every server
	clock = `{"source":"aws.events"}`       // loads the servers that are due
)

// A fleet is a gateway with a distributed sync, and its servers.
type fleet struct {
	*lambdatest.Stack
	t        *testing.T // the current subtest
	life     *testing.T // the whole test
	size     size
	proxy    *lambdatest.Proxy
	crowd    *upstreamtest.Crowd
	mail     *upstreamtest.Server // the server whose tools change
	queues   map[string]string    // outputs of infra/fanout.yaml
	work     *lambdatest.Mapping
	assemble *lambdatest.Mapping
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	size, ok := sizes[os.Getenv("PORTCULLIS_LANES")]
	if !ok {
		t.Skip("make lanes runs it")
	}
	endpoint, key := emulator.Start(t), token.New()
	lists := map[string][]json.RawMessage{}
	for i := range size.servers {
		for j := range tools {
			name := fmt.Sprintf("s%03d", i)
			lists[name] = append(lists[name], upstreamtest.Tool(fmt.Sprintf("read_%d", j), fmt.Sprintf("Reads page %d of shelf %d.", j, i), `{"readOnlyHint":true}`))
		}
	}
	f := &fleet{t: t, life: t, size: size, proxy: lambdatest.NewProxy(t, endpoint), crowd: upstreamtest.NewCrowd(t, lists), mail: upstreamtest.New(t, upstreamtest.Options{})}
	f.lists("read_mail", "send_mail")
	f.Stack = lambdatest.NewStack(t, endpoint, lambdatest.Build(t, repo.Path("."), "mcp", "sync", "admin"), map[string]string{
		"AWS_ENDPOINT_URL": f.proxy.URL, "PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(key),
	})
	f.Admin = key.Reveal()
	f.proxy.Enforce(roletest.Load(t))
	f.queues = emulator.Deploy(t, endpoint, fmt.Sprintf("fanout-%d", time.Now().UnixNano()), repo.Path("infra/fanout.yaml"), map[string]string{
		"WorkAgainSeconds": again, "AssembleAgainSeconds": again, "GatherSeconds": "3",
	})
	f.Configure(f.crowd.Config(""))
	return f
}

// lists makes the mail server list these tools.
func (f *fleet) lists(names ...string) {
	var all []json.RawMessage
	for _, name := range names {
		all = append(all, upstreamtest.Tool(name, "Does "+name+".", `{"readOnlyHint":true}`))
	}
	f.mail.SetTools(all)
}

// withMail adds the mail server to the config.
func (f *fleet) withMail() {
	f.t.Helper()
	f.Configure(strings.Replace(f.crowd.Config(""), `{"mcpServers":{`, fmt.Sprintf(`{"mcpServers":{"mail":{"url":%q},`, f.mail.URL), 1))
}

// function starts the function of the sync in a role.
func (f *fleet) function(role string) *lambdatest.Function {
	return f.Start(f.life, "sync", "PORTCULLIS_SYNC_ROLE", role, "AWS_ACCESS_KEY_ID", role, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512", "PORTCULLIS_GATHER_SECONDS", "1",
		"PORTCULLIS_WORK_QUEUE", f.queues["WorkUrl"], "PORTCULLIS_ASSEMBLE_QUEUE", f.queues["AssembleUrl"])
}

// beginWork starts the workers, and beginAssembly the function that assembles.
func (f *fleet) beginWork() {
	f.work = f.Map(f.life, f.queues["WorkUrl"], f.size.workers, func() *lambdatest.Function { return f.function("work") })
}

func (f *fleet) beginAssembly() {
	f.assemble = f.Map(f.life, f.queues["AssembleUrl"], 1, func() *lambdatest.Function { return f.function("assemble") })
}

// plan runs the planning function. An error ends the test.
func (f *fleet) plan(event string) lambdatest.Answer {
	f.t.Helper()
	p := f.function("plan")
	defer p.Stop()
	a := p.Invoke([]byte(event))
	if a.Failed {
		f.t.Fatalf("plan: %s\n%.3000s", a.Payload, a.Output)
	}
	return a
}

// settle waits until the queues are empty.
func (f *fleet) settle() {
	f.t.Helper()
	if !local.WaitFor(func() bool {
		return f.Waiting(f.t, f.queues["WorkUrl"]) == "0 0 0" && f.Waiting(f.t, f.queues["AssembleUrl"]) == "0 0 0"
	}) {
		f.t.Fatalf("the queues are not empty (waiting, in work, delayed): %s in the work queue, %s in the assembly queue; the workers wrote\n%.4000s",
			f.Waiting(f.t, f.queues["WorkUrl"]), f.Waiting(f.t, f.queues["AssembleUrl"]), f.work.Output())
	}
}

// send sends a message to the queue of the workers.
func (f *fleet) send(body string) {
	f.t.Helper()
	url := f.queues["WorkUrl"]
	_, err := f.Queues().SendMessage(f.t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	require.OK(f.t, err)
}

// wantTools checks that the catalog has n tools, and the table exactly one record of each.
func (f *fleet) wantTools(n int) {
	f.t.Helper()
	records, _ := f.records()
	if got := f.tools(); got != n || len(records) != n {
		f.t.Errorf("the catalog has %d tools and the table %d records, want %d", got, len(records), n)
	}
}

// tools returns how many tools the catalog has, or -1 without a catalog.
func (f *fleet) tools() int {
	key := "catalog/current-2.json"
	o, err := emulator.S3(f.Endpoint).GetObject(f.t.Context(), &s3.GetObjectInput{Bucket: &f.Bucket, Key: &key})
	if err != nil {
		return -1
	}
	defer func() { _ = o.Body.Close() }()
	var current struct{ Tools int }
	require.OK(f.t, json.NewDecoder(o.Body).Decode(&current))
	return current.Tools
}

// records returns how often the record of each tool was written, and its number of audit lines.
func (f *fleet) records() (written, lines map[string]int) {
	f.t.Helper()
	written, lines = map[string]int{}, map[string]int{}
	table := f.Env["PORTCULLIS_TABLE"]
	pages := dynamodb.NewScanPaginator(dynamodb.NewFromConfig(emulator.Config(f.Endpoint)), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(f.t.Context())
		require.OK(f.t, err)
		for _, item := range page.Items {
			pk, sk := text(item["PK"]), text(item["SK"])
			tool := sk[strings.LastIndex(sk, "#")+1:]
			if server, ok := strings.CutPrefix(pk, "SRV#"); ok {
				rev, err := strconv.Atoi(item["rev"].(*types.AttributeValueMemberN).Value)
				require.OK(f.t, err)
				written[server+" "+tool] = rev
			}
			if server, ok := strings.CutPrefix(pk, "AUDIT#"); ok {
				lines[server+" "+tool]++
			}
		}
	}
	return written, lines
}

func text(v types.AttributeValue) string { return v.(*types.AttributeValueMemberS).Value }
