package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The items of a batch, as DynamoDB answers.
const (
	recordItem = `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{\"server\":\"s\",\"tool\":\"t\",\"rev\":3}"}}`
	stopItem   = `{"PK":{"S":"STOP"},"SK":{"S":"STOP"},"stop":{"S":"{\"list\":[{\"all\":true,\"reason\":\"r\",\"by\":\"kim\"}],\"rev\":2}"}}`
	keysLeft   = `"UnprocessedKeys":{"approvals":{"ConsistentRead":true,"Keys":[{"PK":{"S":"STOP"},"SK":{"S":"STOP"}}]}}`
)

var grantItem = `{"PK":{"S":"GRANT#` + agentKey + `"},"SK":{"S":"GRANTED"},"doc":{"S":"{\"agent\":{\"way\":\"token\",\"id\":\"token:ci\"},\"list\":[],\"rev\":4}"}}`

// A busy table that leaves out what was granted is asked for that too: nothing granted is another answer.
func TestStandingAsksForGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := `"UnprocessedKeys":{"approvals":{"ConsistentRead":true,"Keys":[{"PK":{"S":"GRANT#` + agentKey + `"},"SK":{"S":"GRANTED"}}]}}`
		var w wire
		w.answer = func(string, request) (int, string) {
			if len(w.calls) == 1 {
				return http.StatusOK, `{"Responses":{"approvals":[` + recordItem + `,` + stopItem + `]},` + left + `}`
			}
			return http.StatusOK, `{"Responses":{"approvals":[` + grantItem + `]}}`
		}
		if _, _, g, err := w.store().Standing(t.Context(), waiting.ID(), agentKey); err != nil || g.Rev != 4 || len(w.seen[1].RequestItems["approvals"].Keys) != 1 {
			t.Errorf("Standing = %+v, %v after %q", g, err, w.calls)
		}
		w.answer = func(string, request) (int, string) {
			return http.StatusOK, `{"Responses":{"approvals":[` + recordItem + `,` + stopItem + `]},` + left + `}`
		}
		if _, _, g, err := w.store().Standing(t.Context(), waiting.ID(), agentKey); err == nil || errors.Is(err, approval.ErrNotFound) {
			t.Errorf("Standing = %+v, %v of a table that never answers for the grants", g, err)
		}
	})
}

// What a call reads is one request, for two items, and for a third one if people may have granted something
// to its agent.
func TestStandingIsOneConsistentRead(t *testing.T) {
	for key, want := range map[string]int{"": 2, agentKey: 3} {
		w := &wire{answer: func(string, request) (int, string) {
			return http.StatusOK, `{"Responses":{"approvals":[` + stopItem + `,` + recordItem + `,` + grantItem + `]}}`
		}}
		r, held, g, err := w.store().Standing(t.Context(), waiting.ID(), key)
		if _, all := held.Server("any"); err != nil || r.Rev != 3 || !all || g.Rev != 4 {
			t.Errorf("Standing = rev %d, %+v, %+v, %v", r.Rev, held, g, err)
		}
		asked := w.seen[0].RequestItems["approvals"]
		if !slices.Equal(w.calls, []string{"BatchGetItem"}) || !asked.ConsistentRead || len(asked.Keys) != want {
			t.Errorf("it asked %q %+v, want one consistent BatchGetItem of %d keys", w.calls, asked, want)
		}
	}
}

// A busy table answers for a part of the keys. What is missing then is not what does not exist.
func TestStandingAsksForWhatIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wire
		w.answer = func(string, request) (int, string) {
			if len(w.calls) < 4 {
				return http.StatusOK, `{"Responses":{"approvals":[` + map[bool]string{true: recordItem}[len(w.calls) == 1] + `]},` + keysLeft + `}`
			}
			return http.StatusOK, `{"Responses":{"approvals":[` + stopItem + `]}}`
		}
		r, held, _, err := w.store().Standing(t.Context(), waiting.ID(), "")
		if err != nil || r.Rev != 3 || len(held.List) != 1 || len(w.calls) != 4 {
			t.Errorf("Standing = rev %d, %+v, %v after %d requests", r.Rev, held, err, len(w.calls))
		}
		for i, in := range w.seen[1:] {
			if asked := in.RequestItems["approvals"]; len(asked.Keys) != 1 || !asked.ConsistentRead {
				t.Errorf("request %d asked %+v, want the one key that was left out", i+1, asked)
			}
		}
		w.answer = func(string, request) (int, string) {
			return http.StatusOK, `{"Responses":{"approvals":[` + recordItem + `]},` + keysLeft + `}`
		}
		if _, held, _, err := w.store().Standing(t.Context(), waiting.ID(), ""); err == nil || errors.Is(err, approval.ErrNotFound) {
			t.Errorf("Standing = %+v, %v of a table that never answers for the stops", held, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, _, _, err := w.store().Standing(ctx, waiting.ID(), ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Standing = %v as its time ends", err)
		}
	})
}
