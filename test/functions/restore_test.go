package functions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A twoDays is a stack with the tables of yesterday and of today. Today a person approved the tool
// allowed, enabled freed and disabled shut. The tool steady is callable on both days, and waiting
// on neither day.
type twoDays struct {
	*lambdatest.Stack
	t      *testing.T
	tables []string // copies of yesterday's table
}

func newTwoDays(t *testing.T, copies int) *twoDays {
	t.Helper()
	list := func(names ...string) (tools []json.RawMessage) {
		for _, name := range names {
			tools = append(tools, upstreamtest.Tool(name, "Do "+name+".", `{"readOnlyHint":true}`))
		}
		return tools
	}
	up := upstreamtest.New(t, upstreamtest.Options{Tools: list("steady", "freed", "shut")})
	programs := lambdatest.Build(t, repo.Path("."), "mcp", "sync", "admin")
	p := &twoDays{t: t, Stack: lambdatest.NewStack(t, emulator.Start(t), programs, map[string]string{
		"PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(adminToken),
	})}
	p.Admin = adminToken.Reveal()
	p.Configure(`{"mcpServers":{"shop":{"url":"` + up.URL + `"}}}`)
	p.Sync(t)
	p.decide("freed", "disable")
	up.SetTools(list("steady", "freed", "shut", "allowed", "waiting"))
	p.Sync(t)
	db := dynamodb.NewFromConfig(emulator.Config(p.Endpoint))
	for i := range copies { // the emulator can copy only the current table, so copy it now
		p.tables = append(p.tables, fmt.Sprintf("%s-restored-%d", p.Env["PORTCULLIS_TABLE"], i))
		_, err := db.RestoreTableToPointInTime(t.Context(), &dynamodb.RestoreTableToPointInTimeInput{
			SourceTableName: aws.String(p.Env["PORTCULLIS_TABLE"]), TargetTableName: &p.tables[i], UseLatestRestorableTime: aws.Bool(true),
		})
		// A slow emulator can lose an answer, and the client of the SDK then asks again.
		if _, restored := errors.AsType[*types.TableAlreadyExistsException](err); !restored {
			require.OK(t, err)
		}
	}
	p.decide("freed", "enable")
	p.decide("shut", "disable")
	p.decide("allowed", "approve")
	p.Sync(t)
	return p
}

// decide makes a person decide about a tool.
func (p *twoDays) decide(name, verb string) {
	p.t.Helper()
	admin := p.Start(p.t, "admin")
	defer admin.Stop()
	var shown struct{ Hash string }
	admin.Ask(http.StatusOK, "/admin/tools/shop/"+name, nil, &shown)
	admin.Ask(http.StatusOK, "/admin/tools/shop/"+name+"/"+verb, `{"hash":"`+shown.Hash+`"}`, nil)
}

// callable returns the tools that an agent can call in a new function.
func (p *twoDays) callable() string {
	p.t.Helper()
	mcp := p.Start(p.t, "mcp")
	defer mcp.Stop()
	var names []string
	for _, name := range []string{"allowed", "freed", "shut", "steady", "waiting"} {
		if r := mcp.Call("call_tool_read", `{"name":"shop:`+name+`","args":{}}`); !r.IsError {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// A table restored to yesterday unlocks no tool that was locked today. A person then chooses
// between the two states. docs/design/stores.md has the results, as for the approvals file.
func TestRestoredTable(t *testing.T) {
	p := newTwoDays(t, 2)
	if got := p.callable(); got != "allowed, freed, steady" {
		t.Fatalf("callable today: %s", got)
	}
	var got [4]string
	for i, verb := range []string{"restore", "accept"} {
		p.Env["PORTCULLIS_TABLE"] = p.tables[i]
		got[0] = p.callable()
		p.Sync(t)
		got[1] = p.callable()
		admin := p.Start(t, "admin")
		if a := admin.Send("/admin/health", ""); !strings.Contains(a.Body, `"degraded"`) {
			t.Errorf("health before a person has chosen a state: %s", a.Body)
		}
		admin.Ask(http.StatusOK, "/admin/approvals/"+verb, "{}", nil)
		got[2+i] = p.callable()
	}
	page, err := os.ReadFile(repo.Path("docs/design/stores.md"))
	require.OK(t, err)
	if want := "\n| restored to yesterday | " + strings.Join(got[:], " | ") + " |\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/design/stores.md does not have this row:%s", want)
	}
}

// Decisions survive if somebody restores an older version of the config or the catalog in the
// bucket.
func TestOlderVersionOfAnObject(t *testing.T) {
	p := newTwoDays(t, 0)
	bucket := emulator.S3(p.Endpoint)
	older := func(key string) {
		t.Helper()
		list, err := bucket.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &p.Bucket, Prefix: &key})
		require.OK(t, err)
		if len(list.Versions) < 2 || !*list.Versions[0].IsLatest {
			t.Fatalf("%s has the versions %+v", key, list.Versions)
		}
		_, err = bucket.CopyObject(t.Context(), &s3.CopyObjectInput{
			Bucket: &p.Bucket, Key: &key, CopySource: aws.String(p.Bucket + "/" + key + "?versionId=" + *list.Versions[1].VersionId),
		})
		require.OK(t, err)
	}
	const today = "allowed, freed, steady"
	older("catalog/current-2.json")
	if got := p.callable(); got != today {
		t.Errorf("callable with the older catalog: %s, want %s", got, today)
	}
	p.Sync(t)
	if got := p.callable(); got != today {
		t.Errorf("callable after a sync: %s, want %s", got, today)
	}
	p.Configure(`{"mcpServers":{}}`) // a mistake
	p.Sync(t)
	if got := p.callable(); got != "none" {
		t.Errorf("callable without the server: %s", got)
	}
	older("config/mcp_config.json")
	p.Sync(t)
	if got := p.callable(); got != today {
		t.Errorf("callable with the older config: %s, want %s", got, today)
	}
}
