package dynamo_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/login/logintest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestLogins runs against the table that infra/data.yaml makes.
func TestLogins(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "logins")
	t.Run("the store keeps the promises", func(t *testing.T) {
		logintest.Run(t, func(t *testing.T) login.Store {
			return dynamo.NewLogins(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	s := login.Session{ID: strings.Repeat("1", 64), Actor: "token:kim", Way: login.WayToken, Expires: time.Now().Add(time.Hour)}
	t.Run("a write is kept although its answer is lost", func(t *testing.T) {
		transport := new(emulator.Lossy)
		st, s := dynamo.NewLogins(client(endpoint, transport), table(t), nil), s
		for want := int64(1); want <= 2; want++ {
			transport.LoseNext()
			var err error
			if s, err = st.Put(t.Context(), s); err != nil || s.Rev != want {
				t.Fatalf("Put = rev %d, %v; want rev %d", s.Rev, err, want)
			}
		}
		transport.LoseNext()
		if err := st.Delete(t.Context(), s.ID); err != nil {
			t.Errorf("Delete = %v", err)
		}
		if _, err := st.Put(t.Context(), s); !errors.Is(err, login.ErrConflict) {
			t.Errorf("Put after Delete = %v, want ErrConflict", err)
		}
	})
	t.Run("what expired and is still there is as if it were not", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		now := time.Now()
		st := dynamo.NewLogins(db, name, func() time.Time { return now })
		_, err := st.Put(t.Context(), s)
		require.OK(t, err)
		now = s.Expires
		if _, err := st.Get(t.Context(), s.ID); !errors.Is(err, login.ErrNotFound) {
			t.Errorf("Get = %v, want ErrNotFound", err)
		}
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &name, Key: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: "LOGIN#SESSIONS"}, "SK": &types.AttributeValueMemberS{Value: s.ID},
		}})
		require.OK(t, err)
		until, ok := out.Item["expires_at"].(*types.AttributeValueMemberN)
		if !ok || until.Value != fmt.Sprint(s.Expires.Unix()+1) {
			t.Errorf("the table removes it at %v, want the second after %d", out.Item["expires_at"], s.Expires.Unix())
		}
	})
	t.Run("what cannot be read keeps nobody out", func(t *testing.T) {
		db, name := client(endpoint, http.DefaultTransport), table(t)
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: "LOGIN#SESSIONS"}, "SK": &types.AttributeValueMemberS{Value: "x"},
			"login": &types.AttributeValueMemberS{Value: "{"},
		}})
		require.OK(t, err)
		st := dynamo.NewLogins(db, name, nil)
		if all, err := st.List(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("List = %+v, %v; want none", all, err)
		}
		if _, err := st.Get(t.Context(), "x"); err == nil || errors.Is(err, login.ErrNotFound) {
			t.Errorf("Get = %v, want an error of the store", err)
		}
	})
	t.Run("a table that does not exist is named", func(t *testing.T) {
		st := dynamo.NewLogins(client(endpoint, http.DefaultTransport), "no-such-table", nil)
		_, get := st.Get(t.Context(), s.ID)
		_, put := st.Put(t.Context(), s)
		_, list := st.List(t.Context())
		for call, err := range map[string]error{"Get": get, "Put": put, "List": list, "Delete": st.Delete(t.Context(), s.ID)} {
			if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) || errors.Is(err, login.ErrNotFound) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
}

// A session that ended elsewhere must not be open here for as long as a replica lags behind.
func TestLoginIsReadConsistently(t *testing.T) {
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
	st := dynamo.NewLogins(client("http://dynamodb.test", w), "approvals", nil)
	_, get := st.Get(t.Context(), "id")
	_, list := st.List(t.Context())
	if !errors.Is(get, login.ErrNotFound) || list != nil || len(w.seen) != 2 || !w.seen[0].ConsistentRead || !w.seen[1].ConsistentRead {
		t.Errorf("Get = %v, List = %v after %+v, want consistent reads", get, list, w.seen)
	}
}
