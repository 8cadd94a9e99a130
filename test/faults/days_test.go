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

// parts returns the keys of the objects that contain the tools.
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

// unreadable is a part of the answer to agents if the gateway cannot read the catalog.
const unreadable = "cannot read its list of tools"

// searches reports whether a search finds the tool of the log. If the search finds nothing, the
// answer must say that the gateway cannot read its list of tools.
func (v *victim) searches(f *lambdatest.Function, run string) bool {
	v.t.Helper()
	r := f.Call("retrieve_tools", `{"query":"log"}`)
	found := !r.IsError && strings.Contains(r.Text, "git"+run+":log")
	if !found && !strings.Contains(r.Text, unreadable) {
		v.t.Errorf("a search answers %s", r.Text)
	}
	return found
}

// day syncs two servers and returns a running function that agents call.
func (v *victim) day(run string) *lambdatest.Function {
	v.t.Helper()
	v.ordinary(run)
	v.stack.Sync(v.t)
	warm := v.stack.Start(v.t, "mcp")
	if !v.searches(warm, run) {
		v.t.Fatal("the search finds nothing before any fault")
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
				t.Error("the search finds nothing after two syncs")
			}
			v.callable(&after.Client, "after the sync", run, map[string]bool{"fs:write": false, "fs:read": true, "git:log": true})
		})
	}
}

// mustGoOn checks that a running function continues with its catalog. A new function without a
// catalog must refuse everything and report the reason.
func (v *victim) mustGoOn(warm *lambdatest.Function, run string) {
	v.t.Helper()
	if !v.searches(warm, run) {
		v.t.Error("the running function does not continue with its catalog")
	}
	v.callable(&warm.Client, "warm", run, map[string]bool{"fs:write": false, "git:log": true})
	cold := v.stack.Start(v.t, "mcp")
	if v.searches(cold, run) {
		v.t.Error("the new function finds tools in an unreadable catalog")
	}
	v.callable(&cold.Client, "cold", run, map[string]bool{"fs:write": false, "fs:read": false, "git:log": false})
}

// An older program finds a catalog of a newer program. It continues with its own catalog, and
// neither reads nor replaces the newer catalog.
func TestNewerFormat(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs it")
	}
	v := newVictim(t)
	const key, run = "catalog/current-2.json", "-newer"
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
		t.Errorf("the older program replaced the newer catalog: %s", got)
	}
	again := func() bool {
		cold := v.stack.Start(t, "mcp")
		defer cold.Stop()
		v.callable(&cold.Client, "later", run, map[string]bool{"fs:write": false})
		return v.searches(cold, run)
	}
	v.stack.Put(key, string(was)) // the previous version in the bucket
	local.Until(t, "a search finds the log with the previous version", again)
	v.stack.Put(key, string(newer))
	v.remove(key)
	v.stack.Sync(t)
	local.Until(t, "a search finds the log without the newer catalog", again)
}

// items returns all items of the table.
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

// restore replaces the items of the table with earlier ones.
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

// The table is emptied while the catalog is unreadable. No tool is callable, and health reports the
// loss after each sync until a person accepts or restores the state.
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
			t.Errorf("health: %s", a.Body)
		}
		again.Stop()
	}
	last := v.stack.Start(t, "admin")
	last.Ask(http.StatusOK, "/admin/approvals/accept", "{}", nil)
	v.stack.Sync(t)
	if a := v.stack.Start(t, "admin").Send("/admin/health", ""); strings.Contains(a.Body, `"approvals_gone"`) {
		t.Errorf("health after a person has decided: %s", a.Body)
	}
}

// The table is emptied, or restored to its state before a person disabled a tool and before a
// server added another. Locked tools stay locked, and undecided tools are pending.
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
			v.stack.Sync(t) // the catalog now has a copy of the decisions
			want := map[string]bool{"fs:write": false, "fs:evil": false}
			v.callable(&warm.Client, "warm, before the restore", run, want)
			time.Sleep(2500 * time.Millisecond) // the cached decisions are too old now
			v.searches(warm, run)
			v.restore(yesterday)
			time.Sleep(2500 * time.Millisecond) // the cached decisions are too old now
			v.callable(&warm.Client, "warm, after the restore", run, want)
			cold := v.stack.Start(t, "mcp")
			v.callable(&cold.Client, "cold, after the restore", run, want)
			v.stack.Sync(t)
			after := v.stack.Start(t, "mcp")
			v.callable(&after.Client, "after the next sync", run, want)
			local.Until(t, "people see that the tool is still disabled", func() bool {
				return strings.Contains(admin.Send("/admin/tools/fs"+run+"/write", "").Body, `"disabled_by_user"`)
			})
		})
	}
}
