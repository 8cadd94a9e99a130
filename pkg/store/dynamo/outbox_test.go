package dynamo_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestOutbox runs against the table that infra/data.yaml makes.
func TestOutbox(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "outbox")
	t.Run("the store keeps the promises", func(t *testing.T) {
		notifytest.Run(t, func(t *testing.T, now func() time.Time) notify.Outbox {
			return dynamo.NewOutbox(client(endpoint, http.DefaultTransport), table(t), now)
		})
	})
	t.Run("an event is kept once although the answer is lost", func(t *testing.T) {
		transport := new(emulator.Lossy)
		box := dynamo.NewOutbox(client(endpoint, transport), table(t), nil)
		transport.LoseNext()
		require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
		list, err := box.Pending(t.Context())
		require.OK(t, err)
		if len(list) != 1 {
			t.Errorf("Pending = %+v", list)
		}
	})
	t.Run("what is kept has an end, and lies in partitions of the outbox", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		require.OK(t, dynamo.NewOutbox(db, name, nil).Put(t.Context(), notifytest.Sample(1)))
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
		require.OK(t, err)
		if len(out.Items) != 2 {
			t.Errorf("%d items", len(out.Items))
		}
		for _, it := range out.Items {
			if pk, ok := it["PK"].(*types.AttributeValueMemberS); !ok || !strings.HasPrefix(pk.Value, "OUTBOX#") || it["expires_at"] == nil {
				t.Errorf("item %v", it)
			}
		}
	})
}
