package dynamo_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestStops runs against the table that infra/data.yaml makes.
func TestStops(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "stops")
	t.Run("the store keeps the promises", func(t *testing.T) {
		stoptest.Run(t, func(t *testing.T) stop.Store {
			return dynamo.New(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	t.Run("a write is kept although its answer is lost", func(t *testing.T) {
		stoptest.RunLost(t, func(t *testing.T) (stop.Store, func()) {
			transport := new(emulator.Lossy)
			return dynamo.New(client(endpoint, transport), table(t), nil), transport.LoseNext
		})
	})
	t.Run("what cannot be read is not nothing", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: "STOP"}, "SK": &types.AttributeValueMemberS{Value: "STOP"},
			"stop": &types.AttributeValueMemberS{Value: `{"list":[{"toolset":"files"}],"rev":1}`},
		}})
		require.OK(t, err)
		s := dynamo.New(db, name, nil)
		if held, err := s.Stops(t.Context()); err == nil {
			t.Errorf("Stops = %+v, want an error", held)
		}
		if _, held, _, err := s.Standing(t.Context(), waiting.ID(), "k"); err == nil || errors.Is(err, approval.ErrNotFound) {
			t.Errorf("Standing = %+v, %v, want an error", held, err)
		}
	})
	t.Run("a table that does not exist is named", func(t *testing.T) {
		s := dynamo.New(client(endpoint, http.DefaultTransport), "no-such-table", nil)
		_, get := s.Stops(t.Context())
		_, put := s.PutStops(t.Context(), stop.Stops{})
		_, _, _, both := s.Standing(t.Context(), waiting.ID(), "k")
		for call, err := range map[string]error{"Stops": get, "PutStops": put, "Standing": both} {
			if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) || errors.Is(err, approval.ErrNotFound) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
}
