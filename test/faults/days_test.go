package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// objects returns the contents of the objects of the catalog, by key.
func (v *victim) objects() map[string][]byte {
	v.t.Helper()
	client, prefix, all := emulator.S3(v.stack.Endpoint), "catalog/", map[string][]byte{}
	list, err := client.ListObjectsV2(v.t.Context(), &s3.ListObjectsV2Input{Bucket: &v.stack.Bucket, Prefix: &prefix})
	require.OK(v.t, err)
	for _, o := range list.Contents {
		got, err := client.GetObject(v.t.Context(), &s3.GetObjectInput{Bucket: &v.stack.Bucket, Key: o.Key})
		require.OK(v.t, err)
		all[*o.Key], err = io.ReadAll(got.Body)
		require.OK(v.t, err)
		_ = got.Body.Close()
	}
	return all
}

// parts returns the keys of the objects that hold the tools.
func parts(objects map[string][]byte) (keys []string) {
	for key := range objects {
		if filepath.Ext(key) != ".json" {
			keys = append(keys, key)
		}
	}
	return keys
}

func (v *victim) remove(key string) {
	v.t.Helper()
	_, err := emulator.S3(v.stack.Endpoint).DeleteObject(v.t.Context(), &s3.DeleteObjectInput{Bucket: &v.stack.Bucket, Key: &key})
	require.OK(v.t, err)
}

// unreadable is an agent's answer if the catalog cannot be read.
const unreadable = "cannot read its list of tools"

// searches reports whether a function finds the log; else it must say that it cannot read its list.
func (v *victim) searches(f *lambdatest.Function, run string) bool {
	v.t.Helper()
	r := f.Call("retrieve_tools", `{"query":"log"}`)
	found := !r.IsError && strings.Contains(r.Text, "git"+run+":log")
	if !found && !strings.Contains(r.Text, unreadable) {
		v.t.Errorf("a search answers %s", r.Text)
	}
	return found
}

// day is a gateway on an ordinary day: two servers are known, and a function that agents call runs.
func (v *victim) day(run string) *lambdatest.Function {
	v.t.Helper()
	v.ordinary(run)
	v.stack.Sync(v.t)
	warm := v.stack.Start(v.t, "mcp")
	if !v.searches(warm, run) {
		v.t.Fatal("nothing is found on an ordinary day")
	}
	return warm
}

// A stored catalog can be lost or damaged. A running gateway continues; a new one reports the
// missing catalog. The next sync makes it again, with all decisions.
func TestCatalogInS3(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	for name, harm := range map[string]func(key string, data []byte){
		"missing": func(key string, _ []byte) { v.remove(key) },
		"damaged": func(key string, data []byte) {
			data[len(data)/2] ^= 1
			v.stack.Put(key, string(data))
		},
		"half":  func(key string, data []byte) { v.stack.Put(key, string(data[:len(data)/2])) },
		"empty": func(key string, _ []byte) { v.stack.Put(key, "") },
	} {
		t.Run(name, func(t *testing.T) {
			v.t = t
			run := "-" + name
			warm := v.day(run)
			admin := v.stack.Start(t, "admin")
			admin.Ask(http.StatusOK, "/admin/tools/fs"+run+"/write/disable", "{}", nil)
			objects := v.objects()
			for _, key := range parts(objects) {
				harm(key, objects[key])
			}
			v.mustGoOn(warm, run)
			v.stack.Sync(t)
			v.stack.Sync(t)
			after := v.stack.Start(t, "mcp")
			if !v.searches(after, run) {
				t.Error("two syncs later nothing is found")
			}
			v.callable(&after.Client, "after the sync", run, map[string]bool{"fs:write": false, "fs:read": true, "git:log": true})
		})
	}
}

// mustGoOn checks that who has the catalog goes on with it, and that who starts without it lets nothing
// through and says so.
func (v *victim) mustGoOn(warm *lambdatest.Function, run string) {
	v.t.Helper()
	if !v.searches(warm, run) {
		v.t.Error("who has the catalog does not go on with it")
	}
	v.callable(&warm.Client, "warm", run, map[string]bool{"fs:write": false, "git:log": true})
	cold := v.stack.Start(v.t, "mcp")
	if v.searches(cold, run) {
		v.t.Error("who starts finds tools in a catalog that cannot be read")
	}
	v.callable(&cold.Client, "cold", run, map[string]bool{"fs:write": false, "fs:read": false, "git:log": false})
}

// An older program meets a catalog of a newer one: it goes on with what it has, and neither reads nor
// replaces what it does not understand.
func TestNewerFormat(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	const key, run = "catalog/current.json", "-newer"
	warm := v.day(run)
	admin := v.stack.Start(t, "admin")
	admin.Ask(http.StatusOK, "/admin/tools/fs"+run+"/write/disable", "{}", nil)
	was := v.objects()[key]
	current := require.JSON[map[string]any](t, was)
	current["format"] = 99
	newer, err := json.Marshal(current)
	require.OK(t, err)
	v.stack.Put(key, string(newer))
	v.mustGoOn(warm, run)
	f := v.stack.Start(t, "sync")
	if a := f.Invoke([]byte(`{}`)); !a.Failed || !strings.Contains(a.Output, "newer") {
		t.Errorf("a sync of an older program answers %s %s", a.Payload, a.Output)
	}
	if got := v.objects()[key]; string(got) != string(newer) {
		t.Errorf("the older program replaced what the newer one wrote: %s", got)
	}
	again := func() bool {
		cold := v.stack.Start(t, "mcp")
		defer cold.Stop()
		v.callable(&cold.Client, "later", run, map[string]bool{"fs:write": false})
		return v.searches(cold, run)
	}
	v.stack.Put(key, string(was)) // the version before, which the bucket has
	local.Until(t, "a search finds the log with the version before", again)
	v.stack.Put(key, string(newer))
	v.remove(key)
	v.stack.Sync(t)
	local.Until(t, "a search finds the log without what the newer one wrote", again)
}

// items returns what the table holds.
func (v *victim) items() (all []map[string]types.AttributeValue) {
	v.t.Helper()
	table := v.stack.Env["PORTCULLIS_TABLE"]
	pages := dynamodb.NewScanPaginator(v.db(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(v.t.Context())
		require.OK(v.t, err)
		all = append(all, page.Items...)
	}
	return all
}

func (v *victim) db() *dynamodb.Client {
	return dynamodb.NewFromConfig(emulator.Config(v.stack.Endpoint))
}

// restore makes the table hold what it held once.
func (v *victim) restore(once []map[string]types.AttributeValue) {
	v.t.Helper()
	table := v.stack.Env["PORTCULLIS_TABLE"]
	for _, item := range v.items() {
		_, err := v.db().DeleteItem(v.t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: map[string]types.AttributeValue{"PK": item["PK"], "SK": item["SK"]}})
		require.OK(v.t, err)
	}
	for _, item := range once {
		_, err := v.db().PutItem(v.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item})
		require.OK(v.t, err)
	}
}

// The table is emptied while the catalog cannot be read. Nothing is open, and health says so after each
// sync until a person has settled it.
func TestTableAndCatalogLost(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	const run = "-both"
	v.day(run)
	admin := v.stack.Start(t, "admin")
	admin.Ask(http.StatusOK, "/admin/tools/fs"+run+"/write/disable", "{}", nil)
	objects := v.objects()
	for _, key := range parts(objects) {
		v.stack.Put(key, "damaged")
	}
	v.restore(nil)
	shut := map[string]bool{"fs:write": false, "fs:read": false, "git:log": false}
	for range 2 {
		v.stack.Sync(t)
		mcp := v.stack.Start(t, "mcp")
		v.callable(&mcp.Client, "after a sync", run, shut)
		mcp.Stop()
		again := v.stack.Start(t, "admin")
		if a := again.Send("/admin/health", ""); !strings.Contains(a.Body, `"degraded"`) || !strings.Contains(a.Body, `"approvals_gone"`) {
			t.Errorf("health says %s", a.Body)
		}
		again.Stop()
	}
	last := v.stack.Start(t, "admin")
	last.Ask(http.StatusOK, "/admin/approvals/accept", "{}", nil)
	v.stack.Sync(t)
	if a := v.stack.Start(t, "admin").Send("/admin/health", ""); strings.Contains(a.Body, `"approvals_gone"`) {
		t.Errorf("once it is settled health says %s", a.Body)
	}
}

// The table is restored to what it was before a person disabled a tool, and before another one came, or
// it is emptied: what was locked stays locked, and what nobody decided waits.
func TestTableRestored(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	for _, emptied := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied is %t", emptied), func(t *testing.T) {
			v.t = t
			run := fmt.Sprintf("-restored-%t", emptied)
			warm := v.day(run)
			yesterday := v.items()
			if emptied {
				yesterday = nil
			}
			admin := v.stack.Start(t, "admin")
			admin.Ask(http.StatusOK, "/admin/tools/fs"+run+"/write/disable", "{}", nil)
			lists(v.fs, "read", "write", "evil")
			v.stack.Sync(t) // the catalog has a copy of what was decided
			want := map[string]bool{"fs:write": false, "fs:evil": false}
			v.callable(&warm.Client, "warm, before the restore", run, want)
			time.Sleep(2500 * time.Millisecond) // the cached decisions are too old now
			v.searches(warm, run)
			v.restore(yesterday)
			time.Sleep(2500 * time.Millisecond) // what is held is too old
			v.callable(&warm.Client, "warm, after the restore", run, want)
			cold := v.stack.Start(t, "mcp")
			v.callable(&cold.Client, "cold, after the restore", run, want)
			v.stack.Sync(t)
			after := v.stack.Start(t, "mcp")
			v.callable(&after.Client, "after the next sync", run, want)
			local.Until(t, "people see that it is still disabled", func() bool {
				return strings.Contains(admin.Send("/admin/tools/fs"+run+"/write", "").Body, `"disabled_by_user"`)
			})
		})
	}
}
