package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	requests "github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestRequestsOfAgents runs against the table that infra/data.yaml makes.
func TestRequestsOfAgents(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "requests")
	t.Run("the store keeps the promises", func(t *testing.T) {
		requesttest.Run(t, func(t *testing.T) requests.Store {
			return dynamo.New(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	t.Run("with a record and stops", func(t *testing.T) {
		requesttest.RunStanding(t, func(t *testing.T) requesttest.Standing {
			return dynamo.New(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	t.Run("a write is kept although its answer is lost", func(t *testing.T) {
		requesttest.RunLost(t, func(t *testing.T) (requests.Store, func()) {
			transport := new(emulator.Lossy)
			return dynamo.New(client(endpoint, transport), table(t), nil), transport.LoseNext
		})
	})
	t.Run("when the table removes what", func(t *testing.T) { checkExpiry(t, client(endpoint, http.DefaultTransport), table(t)) })
	t.Run("what cannot be read", func(t *testing.T) { checkForeign(t, client(endpoint, http.DefaultTransport), table(t)) })
	t.Run("a table that does not exist is named", func(t *testing.T) {
		s := dynamo.New(client(endpoint, http.DefaultTransport), "no-such-table", nil)
		for call, err := range requestCalls(t, s) {
			if err == nil || !strings.Contains(err.Error(), `table "no-such-table"`) || errors.Is(err, requests.ErrNotFound) || errors.Is(err, requests.ErrConflict) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
}

// requestCalls makes each call of a requests.Store, and returns what came of it.
func requestCalls(t *testing.T, s requests.Store) map[string]error {
	t.Helper()
	ctx, agent := t.Context(), requesttest.Agent("ci")
	a, r := oneCall(t)
	_, asked := s.Asked(ctx, agent.Key())
	_, put := s.PutAsked(ctx, requests.Asked{Agent: agent}, "", nil)
	_, add := s.PutAsked(ctx, a, r.ID, json.RawMessage(`{"a":1}`))
	_, granted := s.Granted(ctx, agent.Key())
	_, grant := s.PutGranted(ctx, requests.Granted{Agent: agent})
	_, use := s.Use(ctx, r.ID, time.Now(), time.Now())
	_, used := s.Used(ctx, r.ID)
	_, arguments := s.Arguments(ctx, agent.Key(), r.ID)
	_, whose := s.Whose(ctx, r.ID)
	_, _, list := s.Requests(ctx)
	return map[string]error{
		"Asked": asked, "PutAsked": put, "PutAsked with a request": add, "Granted": granted, "PutGranted": grant, "Use": use, "Used": used,
		"Arguments": arguments, "DropArguments": s.DropArguments(ctx, agent.Key(), r.ID), "Whose": whose, "Requests": list,
	}
}

// oneCall returns what the agent ci asks for: one call.
func oneCall(t *testing.T) (requests.Asked, requests.Request) {
	t.Helper()
	a, r, _, err := requests.Asked{Agent: requesttest.Agent("ci")}.Add(requesttest.OneCall("git", "push", `{"a":1}`), requests.Granted{}, nil, time.Now())
	require.OK(t, err)
	return a, r
}

func checkExpiry(t *testing.T, db *dynamodb.Client, table string) {
	s, key := dynamo.New(db, table, nil), requesttest.Agent("ci").Key()
	a, r := oneCall(t)
	_, err := s.PutAsked(t.Context(), a, r.ID, json.RawMessage(`{"a":1}`))
	require.OK(t, err)
	_, err = s.PutGranted(t.Context(), requests.Granted{Agent: a.Agent})
	require.OK(t, err)
	ends := time.Now().Add(requests.UseFor)
	_, err = s.Use(t.Context(), r.ID, time.Now(), ends)
	require.OK(t, err)
	until := func(pk, sk string) string {
		t.Helper()
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: pk}, "SK": &types.AttributeValueMemberS{Value: sk},
		}})
		require.OK(t, err)
		if out.Item == nil {
			t.Errorf("there is no item %s %s", pk, sk)
		}
		n, ok := out.Item["expires_at"].(*types.AttributeValueMemberN)
		if !ok {
			return ""
		}
		return n.Value
	}
	after := func(at time.Time) string { return fmt.Sprint(at.Unix() + 1) }
	for _, tt := range []struct{ pk, sk, want string }{
		{"ASK#" + key, "ASKED", ""}, {"GRANT#" + key, "GRANTED", ""},
		{"ASK#" + key, "ARGS#" + r.ID, after(r.Expires)}, {"ASK#", r.ID, after(r.Kept())},
		{"USED#" + r.ID, "USED", after(requests.KeepUse(ends))},
	} {
		if got := until(tt.pk, tt.sk); got != tt.want {
			t.Errorf("the table removes %s %s at %q, want %q", tt.pk, tt.sk, got, tt.want)
		}
	}
	require.OK(t, s.DropArguments(t.Context(), key, r.ID))
	if got := until("ASK#"+key, "ARGS#"+r.ID); got < after(time.Now().Add(-time.Minute)) || got > after(time.Now()) {
		t.Errorf("the table removes what was dropped at %q; what ended five years ago it keeps", got)
	}
}

// What is written where it must not be, or by a newer program, is an error and not nothing; and a pointer
// that cannot be read hides no other.
func checkForeign(t *testing.T, db *dynamodb.Client, table string) {
	s, key := dynamo.New(db, table, nil), requesttest.Agent("ci").Key()
	a, r := oneCall(t)
	_, err := s.PutAsked(t.Context(), a, r.ID, nil)
	require.OK(t, err)
	put := func(pk, sk string, more ...string) {
		t.Helper()
		it := map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: pk}, "SK": &types.AttributeValueMemberS{Value: sk}}
		for i := 0; i < len(more); i += 2 {
			it[more[i]] = &types.AttributeValueMemberS{Value: more[i+1]}
		}
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it})
		require.OK(t, err)
	}
	_, asked, err := a.Encode()
	require.OK(t, err)
	_, granted, err := requests.Granted{Agent: requesttest.Agent("cd")}.Encode()
	require.OK(t, err)
	other := requesttest.Agent("cd").Key()
	put("ASK#"+other, "ASKED", "doc", string(asked))
	put("GRANT#"+key, "GRANTED", "doc", string(granted))
	put("ASK#", "R-00000000", "agent", key, "expires", "soon")
	put("USED#"+r.ID, "USED", "used_at", "just now")
	_, askedErr := s.Asked(t.Context(), other)
	_, grantedErr := s.Granted(t.Context(), key)
	_, _, _, standing := s.Standing(t.Context(), waiting.ID(), key)
	_, whose := s.Whose(t.Context(), "R-00000000")
	_, used := s.Used(t.Context(), r.ID)
	_, use := s.Use(t.Context(), r.ID, time.Now(), time.Now())
	for call, err := range map[string]error{"Asked": askedErr, "Granted": grantedErr, "Standing": standing, "Whose": whose, "Used": used, "Use": use} {
		if err == nil || errors.Is(err, requests.ErrNotFound) || errors.Is(err, requests.ErrUsed) || errors.Is(err, approval.ErrNotFound) {
			t.Errorf("%s = %v, want an error", call, err)
		}
	}
	list, all, err := s.Requests(t.Context())
	if err != nil || all || len(list) != 1 || list[0].Request != r.ID {
		t.Errorf("Requests = %+v, all: %v, %v; want the one that can be read, and that it is not all", list, all, err)
	}
}

// Nothing is written twice the price: a transaction is for what is written together.
func TestRequestWrites(t *testing.T) {
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
	for call, err := range requestCalls(t, w.store()) {
		if err != nil && !errors.Is(err, requests.ErrNotFound) {
			t.Errorf("%s = %v", call, err)
		}
	}
	want := []string{"GetItem", "PutItem", "TransactWriteItems", "GetItem", "PutItem", "PutItem", "GetItem", "GetItem", "GetItem", "Query", "PutItem"}
	if !slices.Equal(w.calls, want) {
		t.Errorf("requests %q, want %q", w.calls, want)
	}
	for i, call := range w.calls {
		if reads := call == "GetItem" || call == "Query"; reads && !w.seen[i].ConsistentRead {
			t.Errorf("request %d, a %s, is not strongly consistent", i, call)
		}
	}
	if n := len(w.seen[2].TransactItems); n != 3 {
		t.Errorf("a request is added in a transaction of %d items, want 3", n)
	}
}

// A write that is refused for whatever reason is a conflict, and the caller reads again. Throttled ones
// are repeated.
func TestRefusedRequest(t *testing.T) {
	a, r := oneCall(t)
	for _, tt := range []struct {
		name, refusal string
		conflict      bool
	}{
		{"the document was written since", cancelled("ConditionalCheckFailed", "None", "None"), true},
		{"the id exists", cancelled("None", "ConditionalCheckFailed", "None"), true},
		{"another writes at this moment", cancelled("TransactionConflict", "None", "None"), true},
		{"another writes, and the table is busy", cancelled("TransactionConflict", "ThrottlingError", "None"), true},
		{"the item is too large", cancelled("ValidationError", "None", "None"), false},
		{"it may not", fault("AccessDeniedException"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(wire)
				w.answer = func(call string, _ request) (int, string) {
					if call == "GetItem" {
						return http.StatusOK, held("another writer's")
					}
					return http.StatusBadRequest, tt.refusal
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := w.store().PutAsked(ctx, a, r.ID, json.RawMessage(`{"a":1}`))
				if errors.Is(err, requests.ErrConflict) != tt.conflict && ctx.Err() == nil || err == nil {
					t.Errorf("PutAsked = %v, want a conflict: %v", err, tt.conflict)
				}
			})
		})
	}
}

// A busy table is asked again, and what was not written before then is.
func TestThrottledRequest(t *testing.T) {
	a, r := oneCall(t)
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		w.answer = func(string, request) (int, string) {
			switch len(w.calls) {
			case 1:
				return http.StatusBadRequest, cancelled("None", "None", "ThrottlingError")
			case 2:
				return http.StatusBadRequest, fault("ProvisionedThroughputExceededException")
			}
			return http.StatusOK, `{}`
		}
		if _, err := w.store().PutAsked(t.Context(), a, r.ID, nil); err != nil || len(w.calls) != 3 {
			t.Errorf("PutAsked = %v after %d requests", err, len(w.calls))
		}
	})
}

// Of a write whose answer cannot be decoded it is read whether it was kept. Of a use of which nothing can be
// read it is not known, and the call is not made.
func TestGarbledRequest(t *testing.T) {
	a, r := oneCall(t)
	now := time.Now().UTC().Truncate(time.Microsecond)
	for name, kept := range map[string]string{"kept": "own", "another's": "other", "unread": ""} {
		w := new(wire)
		w.answer = func(call string, _ request) (int, string) {
			if call != "GetItem" || kept == "" {
				return http.StatusOK, `{"half`
			}
			id := "another writer's"
			if in := w.seen[0]; kept == "own" {
				id = in.Item["write_id"].S
				if len(in.TransactItems) > 0 {
					id = in.TransactItems[0].Put.Item["write_id"].S
				}
			}
			return http.StatusOK, held(id)
		}
		do := map[string]func(s *dynamo.Store) error{
			"PutAsked":                func(s *dynamo.Store) error { _, err := s.PutAsked(t.Context(), a, "", nil); return err },
			"PutAsked with a request": func(s *dynamo.Store) error { _, err := s.PutAsked(t.Context(), a, r.ID, nil); return err },
			"PutGranted": func(s *dynamo.Store) error {
				_, err := s.PutGranted(t.Context(), requests.Granted{Agent: a.Agent})
				return err
			},
			"Use": func(s *dynamo.Store) error {
				used, err := s.Use(t.Context(), r.ID, now, now)
				if err == nil && !used.Equal(now) || errors.Is(err, requests.ErrUsed) {
					t.Errorf("%s: Use = %v, %v", name, used, err)
				}
				return err
			},
		}
		for call, put := range do {
			w.calls, w.seen = nil, nil
			if err := put(w.store()); (err == nil) != (kept == "own") {
				t.Errorf("%s, %s: %v", call, name, err)
			}
		}
	}
}

// The list ends where a person would have stopped to read, and says so.
func TestRequestsInPages(t *testing.T) {
	w := new(wire)
	w.answer = func(_ string, in request) (int, string) {
		page := len(w.calls)
		return http.StatusOK, fmt.Sprintf(`{"Items":[{"PK":{"S":"ASK#"},"SK":{"S":"R-%08d"},"agent":{"S":"k"},"expires":{"S":"2099-01-01T00:00:00.000000000Z"},`+
			`"kept":{"S":"2099-01-01T00:00:00.000000000Z"}}],"LastEvaluatedKey":{"page":{"S":"%d"}}}`, page, page)
	}
	s := dynamo.New(client("http://dynamodb.test", w), "approvals", &store.Options{})
	list, all, err := s.Requests(t.Context())
	if err != nil || all || len(list) != 4 || len(w.calls) != 4 || list[3].Request != "R-00000004" {
		t.Errorf("Requests = %+v, all: %v, %v after %d pages", list, all, err, len(w.calls))
	}
}
