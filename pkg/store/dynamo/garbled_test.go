package dynamo_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/pkg/token/tokentest"
)

// An item that every read can decode, as one of an answer to GetItem or Query.
const anything = `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{\"server\":\"s\",\"tool\":\"t\",\"rev\":1}"},"rev":{"N":"1"},
	"disabled":{"BOOL":true},"decided_at":{"S":"2026-03-14T15:09:26.535897932Z"},"entry":{"S":"{}"},"baseline":{"S":"{}"},"token":{"S":"{}"},
	"session_id":{"S":"x"},"expires_at":{"N":"9999999999"},"stop":{"S":"{\"list\":[],\"rev\":1}"},"doc":{"S":"{\"agent\":{\"way\":\"token\",\"id\":\"token:ci\"}}"},"used_at":{"S":"2026-03-14T15:09:26.535897932Z"},
	"kept":{"S":"2099-03-14T15:09:26.535897932Z"},"expires":{"S":"2099-03-14T15:09:26.535897932Z"},"arguments":{"B":"e30="}}`

// agentKey is the key of the agent that the item is about.
var agentKey = requesttest.Agent("ci").Key()

// damages are what an answer can come to on its way.
var damages = map[string]func(whole string) string{
	"broken off":           func(s string) string { return s[:len(s)/2] },
	"another text":         func(string) string { return `<html>busy</html>` },
	"an item that is none": func(s string) string { return strings.ReplaceAll(s, `"S":"{`, `"S":"{{`) },
	"an item without its parts": func(s string) string {
		return strings.NewReplacer("rev", "ver", "expires", "at", "agent", "a", "used_at", "at").Replace(s)
	},
}

// reads are all that read the table, each with what it says of the item.
func reads(t *testing.T, w *wire) map[string]func() error {
	db := client("http://dynamodb.test", w)
	s, tokens, sessions := dynamo.New(db, "approvals", nil), dynamo.NewTokens(db, "approvals"), dynamo.NewSessions(db, "approvals", nil)
	ctx := t.Context()
	return map[string]func() error{
		"Get":          func() error { _, err := s.Get(ctx, waiting.ID()); return err },
		"Stops":        func() error { _, err := s.Stops(ctx); return err },
		"Standing":     func() error { _, _, _, err := s.Standing(ctx, waiting.ID(), agentKey); return err },
		"Records":      func() error { _, err := s.Records(ctx, "s"); return err },
		"Changes":      func() error { _, _, err := s.Changes(ctx, time.Time{}, ""); return err },
		"Audit":        func() error { _, err := s.Audit(ctx, "s", approval.Cursor{}, 10); return err },
		"Baseline":     func() error { _, err := s.Baseline(ctx, "i", approval.Tools); return err },
		"OldBaselines": func() error { _, err := s.OldBaselines(ctx, []string{"s"}); return err },
		"Token":        func() error { _, err := tokens.Token(ctx, "id"); return err },
		"Tokens":       func() error { _, err := tokens.Tokens(ctx); return err },
		"Asked":        func() error { _, err := s.Asked(ctx, agentKey); return err },
		"Granted":      func() error { _, err := s.Granted(ctx, agentKey); return err },
		"Used":         func() error { _, err := s.Used(ctx, "R-00000000"); return err },
		"Arguments":    func() error { _, err := s.Arguments(ctx, agentKey, "R-00000000"); return err },
		"Whose":        func() error { _, err := s.Whose(ctx, "R-00000000"); return err },
		"Session":      func() error { _, err := sessions.Get(ctx, session.Key{Server: "s"}); return err },
	}
}

func answerTo(call string, in request) string {
	granted := strings.NewReplacer("SRV#s", "GRANT#"+agentKey, "TOOL#t", "GRANTED").Replace(anything)
	switch call {
	case "GetItem":
		switch pk, _ := in.Key["PK"].(map[string]any); pk["S"] {
		case "ASK#" + agentKey:
			return `{"Item":` + strings.Replace(anything, "SRV#s", "ASK#"+agentKey, 1) + `}`
		case "GRANT#" + agentKey:
			return `{"Item":` + granted + `}`
		}
		return `{"Item":` + anything + `}`
	case "BatchGetItem":
		return `{"Responses":{"approvals":[` + anything + `,` + granted + `,` + strings.NewReplacer("SRV#s", "STOP", "TOOL#t", "STOP").Replace(anything) + `]}}`
	}
	items := `{"Items":[` + anything + `],"Count":1}`
	if strings.HasPrefix(in.ExpressionAttributeValues[":pk"].S, "AUDIT#") {
		items = strings.Replace(items, "TOOL#", "2026-03-14T15:09:26.535897932Z#", 1)
	}
	return items
}

func TestGarbledRead(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			var w wire
			for read, do := range reads(t, &w) {
				w.calls = nil
				w.answer = func(call string, in request) (int, string) {
					if len(w.calls) == 1 {
						return http.StatusOK, damage(answerTo(call, in))
					}
					return http.StatusOK, answerTo(call, in)
				}
				if err := do(); err != nil || len(w.calls) > 2 {
					t.Errorf("%s = %v after %d requests, want what the second one answered", read, err, len(w.calls))
				}
			}
		})
	}
}

func TestGarbledAnswers(t *testing.T) {
	var w wire
	for read, do := range reads(t, &w) {
		w.calls = nil
		w.answer = func(call string, in request) (int, string) {
			return http.StatusOK, damages["broken off"](answerTo(call, in))
		}
		err := do()
		if err == nil || errors.Is(err, approval.ErrNotFound) || errors.Is(err, token.ErrNotFound) || len(w.calls) != 2 {
			t.Errorf("%s = %v after %d requests, want an error after 2", read, err, len(w.calls))
		}
	}
}

func TestGarbledPage(t *testing.T) {
	const pages = 3
	for broken := range pages {
		var w wire
		var asked []string
		w.answer = func(_ string, in request) (int, string) {
			page := "0"
			if in.ExclusiveStartKey != nil {
				page = in.ExclusiveStartKey["page"].(map[string]any)["S"].(string)
			}
			asked = append(asked, page)
			last := ""
			if page != "2" {
				last = fmt.Sprintf(`,"LastEvaluatedKey":{"page":{"S":"%c"}}`, page[0]+1)
			}
			body := `{"Items":[` + strings.ReplaceAll(anything, "TOOL#t", "TOOL#"+page) + `]` + last + `}`
			if page == fmt.Sprint(broken) && slices.Index(asked, page) == len(asked)-1 {
				body = body[:len(body)-9]
			}
			return http.StatusOK, body
		}
		all, err := approvaltest.AllChanges(t.Context(), w.store(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range all {
			got = append(got, d.ID.Name)
		}
		if !slices.Equal(got, []string{"0", "1", "2"}) || len(asked) != pages+1 {
			t.Errorf("page %d garbled: Changes = %q after the pages %q", broken, got, asked)
		}
	}
}

// A write is not made again: whether it was kept is read.
func TestGarbledWrite(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			var w wire
			w.answer = func(call string, _ request) (int, string) {
				switch id := w.seen[0].ExpressionAttributeValues[":write_id"].S; {
				case call != "GetItem":
					return http.StatusOK, `{"half`
				case kept:
					return http.StatusOK, held(id)
				default:
					return http.StatusOK, `{}`
				}
			}
			r, err := w.store().Put(t.Context(), waiting, nil)
			if kept != (err == nil) || kept && r.Rev != 1 {
				t.Errorf("Put = rev %d, %v", r.Rev, err)
			}
			if want := []string{"UpdateItem", "GetItem"}; !slices.Equal(w.calls, want) {
				t.Errorf("requests %q, want %q", w.calls, want)
			}
		})
	}
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{"half` }}
	if _, err := dynamo.NewTokens(client("http://dynamodb.test", w), "approvals").PutToken(t.Context(), tok); err == nil {
		t.Error("PutToken: no error although nothing can be read")
	}
}
