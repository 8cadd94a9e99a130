package dynamo_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/pkg/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
)

// TestTokensOnAnEmulator runs against the table that infra/data.yaml makes.
func TestTokensOnAnEmulator(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "tokens")
	t.Run("the store keeps the promises", func(t *testing.T) {
		tokentest.Run(t, func(t *testing.T) token.Store {
			return dynamo.NewTokens(client(endpoint, http.DefaultTransport), table(t))
		})
	})
	t.Run("a write is kept although its answer is lost", func(t *testing.T) {
		transport := new(emulator.Lossy)
		s := dynamo.NewTokens(client(endpoint, transport), table(t))
		tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
		for want := int64(1); want <= 2; want++ {
			transport.LoseNext()
			var err error
			if tok, err = s.PutToken(t.Context(), tok.Revoke("sam", tok.CreatedAt)); err != nil || tok.Rev != want {
				t.Fatalf("PutToken = rev %d, %v; want rev %d", tok.Rev, err, want)
			}
		}
	})
	t.Run("a token is no approval record", func(t *testing.T) {
		name := table(t)
		tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
		if _, err := dynamo.NewTokens(client(endpoint, http.DefaultTransport), name).PutToken(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
		changed, err := approvaltest.AllChanges(t.Context(), dynamo.New(client(endpoint, http.DefaultTransport), name, nil), time.Time{})
		if err != nil || len(changed) != 0 {
			t.Errorf("Changes = %v, %v; want nothing", changed, err)
		}
	})
	t.Run("a table that does not exist is named", func(t *testing.T) {
		s := dynamo.NewTokens(client(endpoint, http.DefaultTransport), "no-such-table")
		tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
		_, get := s.Token(t.Context(), tok.ID)
		_, put := s.PutToken(t.Context(), tok)
		_, list := s.Tokens(t.Context())
		for call, err := range map[string]error{"Token": get, "PutToken": put, "Tokens": list, "TouchToken": s.TouchToken(t.Context(), tok.ID, tok.CreatedAt)} {
			if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) || errors.Is(err, token.ErrNotFound) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
}

func TestTokenIsReadConsistently(t *testing.T) {
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
	_, err := dynamo.NewTokens(client("http://dynamodb.test", w), "approvals").Token(t.Context(), "id")
	if !errors.Is(err, token.ErrNotFound) || len(w.seen) != 1 || !w.seen[0].ConsistentRead {
		t.Errorf("Token = %v after %+v, want ErrNotFound after one consistent read", err, w.seen)
	}
}
