package dynamo_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// anEvent is a valid line.
var anEvent = audit.Line{V: audit.Version, Time: audittest.Start, Kind: audit.KindEvent, Actor: "kim", Action: audit.ActionConfigTaken, Subject: "file:a"}

// TestEvents runs against the table of infra/data.yaml.
func TestEvents(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "deeds")
	t.Run("the store fulfills its contract", func(t *testing.T) {
		audittest.Run(t, func(t *testing.T) audit.Events {
			return dynamo.NewEvents(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	t.Run("a write whose answer is lost takes effect once", func(t *testing.T) {
		transport := new(emulator.Lossy)
		s := dynamo.NewEvents(client(endpoint, transport), table(t), nil)
		transport.LoseNext()
		require.OK(t, s.PutEvent(t.Context(), anEvent))
		transport.LoseNext()
		_, err := s.PutChange(t.Context(), anEvent, "1")
		require.OK(t, err)
		if all := audittest.All(t, s, audit.Filter{}, 10); len(all) != 2 {
			t.Errorf("there are %d lines, want 2: %+v", len(all), all)
		}
	})
	t.Run("the table removes old lines, but no state", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		const keep = 100 * 365 * 24 * time.Hour // so that the table keeps it during the test
		s := dynamo.NewEvents(db, name, &store.Options{KeepAudit: keep})
		_, err := s.PutChange(t.Context(), anEvent, "1")
		require.OK(t, err)
		pk := "AUDIT#@gateway"
		out, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &name, KeyConditionExpression: new("PK = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: pk}},
		})
		require.OK(t, err)
		var until []string
		for _, it := range out.Items {
			if n, ok := it["expires_at"].(*types.AttributeValueMemberN); ok {
				until = append(until, n.Value)
			}
		}
		if want := fmt.Sprint(anEvent.Time.Add(keep).Unix()); len(out.Items) != 2 || len(until) != 1 || until[0] != want {
			t.Errorf("%d items of which %v expire, want 2 and %s", len(out.Items), until, want)
		}
	})
	t.Run("an event is not in the audit of a server", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		require.OK(t, dynamo.NewEvents(db, name, nil).PutEvent(t.Context(), anEvent))
		if lines, err := dynamo.New(db, name, nil).Audit(t.Context(), "gateway", approval.Cursor{}, 10); err != nil || len(lines) > 0 {
			t.Errorf("Audit = %v, %v; want none", lines, err)
		}
	})
	t.Run("the error names a missing table", func(t *testing.T) {
		s := dynamo.NewEvents(client(endpoint, http.DefaultTransport), "no-such-table", nil)
		_, changed := s.PutChange(t.Context(), anEvent, "1")
		_, _, read := s.Events(t.Context(), audit.Filter{}, "", 1)
		for call, err := range map[string]error{"PutDeed": s.PutEvent(t.Context(), anEvent), "PutChange": changed, "Deeds": read} {
			if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
}

// A person finds their last action in the audit. A page costs one query unless a filter excludes
// most lines.
func TestEventsAreReadConsistently(t *testing.T) {
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{"Items":[]}` }}
	s := dynamo.NewEvents(client("http://dynamodb.test", w), "approvals", nil)
	_, _, err := s.Events(t.Context(), audit.Filter{}, "", 50)
	if err != nil || len(w.seen) != 1 || !w.seen[0].ConsistentRead {
		t.Errorf("Events = %v after %+v, want one consistent read", err, w.seen)
	}
}
