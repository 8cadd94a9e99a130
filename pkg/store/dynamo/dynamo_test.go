package dynamo_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// template is the file that defines the table.
const template = "../../../infra/data.yaml"

// client returns a real client for the test's endpoint.
func client(endpoint string, transport http.RoundTripper) *dynamodb.Client {
	return dynamodb.NewFromConfig(emulator.Config(endpoint), func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: transport} })
}

// tables returns a function that makes a new table as defined in infra/data.yaml, and returns its
// name.
func tables(endpoint, of string) func(t *testing.T) string {
	run, made := time.Now().UnixNano(), 0
	return func(t *testing.T) string {
		t.Helper()
		made++
		name := fmt.Sprintf("%s-test-%d-%d", of, run, made)
		return emulator.Deploy(t, endpoint, name, template, map[string]string{"DeletionProtection": "false", "TableName": name})["TableName"]
	}
}

// TestOnAnEmulator runs against a new table of infra/data.yaml in each subtest.
func TestOnAnEmulator(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "dynamo")
	t.Run("the store fulfills its contract", func(t *testing.T) {
		approvaltest.Run(t, func(t *testing.T) approval.Store {
			return dynamo.New(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	t.Run("a write whose answer is lost takes effect", func(t *testing.T) {
		approvaltest.RunLost(t, func(t *testing.T) (approval.Store, func()) {
			transport := new(emulator.Lossy)
			return dynamo.New(client(endpoint, transport), table(t), nil), transport.LoseNext
		})
	})
	t.Run("the error names a missing table", func(t *testing.T) {
		checkMissing(t, dynamo.New(client(endpoint, http.DefaultTransport), "no-such-table", nil))
	})
	t.Run("the table is protected and outlives its stack", func(t *testing.T) {
		// The emulator does not implement this setting.
		if data, err := os.ReadFile(template); err != nil || !strings.Contains(string(data), "PointInTimeRecoveryEnabled: true") {
			t.Errorf("%s has no point-in-time recovery (%v)", template, err)
		}
		stack := fmt.Sprintf("dynamo-test-%d-guarded", time.Now().UnixNano())
		outputs := emulator.Deploy(t, endpoint, stack, template, nil)
		checkGuarded(t, client(endpoint, http.DefaultTransport), outputs)
		emulator.Destroy(t, endpoint, stack)
		checkGuarded(t, client(endpoint, http.DefaultTransport), outputs)
	})
}

// checkGuarded checks the protection that infra/data.yaml gives the table.
func checkGuarded(t *testing.T, db *dynamodb.Client, outputs map[string]string) {
	t.Helper()
	name := outputs["TableName"]
	table, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	require.OK(t, err)
	if b := table.Table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("billing is %+v, want on demand", b)
	}
	if p := table.Table.DeletionProtectionEnabled; p == nil || !*p {
		t.Error("the table has no deletion protection")
	}
	if got := *table.Table.TableArn; got != outputs["TableArn"] || got+"/index/decisions" != outputs["FeedArn"] {
		t.Errorf("the table is %s; the outputs are %v", got, outputs)
	}
}

// checkMissing checks that each call on a Store without a table reports the missing table.
func checkMissing(t *testing.T, s *dynamo.Store) {
	r := approval.Record{Server: "s", Tool: "t", State: approval.Pending}
	_, get := s.Get(t.Context(), r.ID())
	_, records := s.Records(t.Context(), "s")
	_, _, changes := s.Changes(t.Context(), time.Time{}, "")
	_, put := s.Put(t.Context(), r, nil)
	_, both := s.Put(t.Context(), r, &approval.Entry{Server: "s", Tool: "t", Actor: "a", Action: "observe"})
	_, audit := s.Audit(t.Context(), "s", approval.Cursor{}, 1)
	for name, err := range map[string]error{
		"Get": get, "Records": records, "Changes": changes, "Put": put, "Put with an entry": both, "Audit": audit,
	} {
		if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) || errors.Is(err, approval.ErrNotFound) || errors.Is(err, approval.ErrConflict) {
			t.Errorf("%s = %v, want an error that names the table", name, err)
		}
	}
}
