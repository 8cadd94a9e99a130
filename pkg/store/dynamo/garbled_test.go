package dynamo_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An item in an answer to GetItem or Query that every read of a record or an audit can decode.
const anything = `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{\"server\":\"s\",\"tool\":\"t\",\"rev\":1}"},"rev":{"N":"1"},
	"disabled":{"BOOL":true},"decided_at":{"S":"2026-03-14T15:09:26.535897932Z"},"entry":{"S":"{}"}}`

// damages are the ways in which an answer can be damaged in transit.
var damages = map[string]func(whole string) string{
	"broken off":      func(s string) string { return s[:len(s)/2] },
	"another text":    func(string) string { return `<html>busy</html>` },
	"an invalid item": func(s string) string { return strings.ReplaceAll(s, `"S":"{`, `"S":"{{`) },
	"an item without its parts": func(s string) string {
		return strings.NewReplacer(`"rev"`, `"ver"`, `"kept"`, `"end"`, `"expires"`, `"end"`, `"stop"`, `"s"`, `"doc"`, `"d"`,
			`"agent"`, `"a"`, `"login"`, `"l"`, `"token"`, `"t"`, `"session_id"`, `"s"`, `"used_at"`, `"at"`, `"baseline"`, `"b"`).Replace(s)
	},
}

// reads are all methods that read the table, with the result that each has for the item.
func reads(t *testing.T, w *wire) map[string]func() error {
	s, ctx := sampleStore(w), t.Context()
	all := map[string]func() error{
		"Get":     func() error { _, err := s.Get(ctx, waiting.ID()); return err },
		"GetWith": func() error { _, _, err := s.GetWith(ctx, waiting.ID(), stopKey, grantKey); return err },
		"Records": func() error { _, err := s.Records(ctx, "s"); return err },
		"Changes": func() error { _, _, err := s.Changes(ctx, time.Time{}, ""); return err },
		"Audit":   func() error { _, err := s.Audit(ctx, "s", approval.Cursor{}, 10); return err },
	}
	for name, tt := range samples {
		all["Docs of "+name] = func() error { _, err := s.Docs(ctx, tt.doc.Key); return err }
		all["ListDocs of "+name] = func() error {
			_, all, err := s.ListDocs(ctx, tt.doc.Part)
			if err == nil && !all {
				return errors.New("all is false")
			}
			return err
		}
	}
	return all
}

func answerTo(call string, in request) string {
	if call == "BatchGetItem" {
		return batchOf(recordItem + "," + stopItem + "," + grantItem)
	}
	pk, _ := in.Key["PK"].(map[string]any)
	sk, _ := in.Key["SK"].(map[string]any)
	values, it := in.ExpressionAttributeValues, anything
	if strings.HasPrefix(values[":pk"].S, "AUDIT#") {
		it = strings.Replace(it, "TOOL#", "2026-03-14T15:09:26.535897932Z#", 1)
	}
	for _, tt := range samples {
		isOne := pk["S"] == tt.doc.Part && sk["S"] == tt.doc.ID
		if isOne || values[":pk"].S == tt.doc.Part && values[":from"].S == "" {
			it = tt.all()
		}
	}
	if call == "GetItem" {
		return `{"Item":` + it + `}`
	}
	return `{"Items":[` + it + `],"Count":1}`
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
					t.Errorf("%s = %v after %d requests, want the second answer", read, err, len(w.calls))
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
		if err == nil || errors.Is(err, approval.ErrNotFound) || len(w.calls) != 2 {
			t.Errorf("%s = %v after %d requests, want an error after 2", read, err, len(w.calls))
		}
	}
}

func TestGarbledPage(t *testing.T) {
	const pages = 3
	for broken := range pages {
		var w wire
		var marks []string
		w.answer = func(_ string, in request) (int, string) {
			page := "0"
			if in.ExclusiveStartKey != nil {
				page = in.ExclusiveStartKey["page"].(map[string]any)["S"].(string)
			}
			marks = append(marks, page)
			last := ""
			if page != "2" {
				last = fmt.Sprintf(`,"LastEvaluatedKey":{"page":{"S":"%c"}}`, page[0]+1)
			}
			body := `{"Items":[` + strings.ReplaceAll(anything, "TOOL#t", "TOOL#"+page) + `]` + last + `}`
			if page == fmt.Sprint(broken) && slices.Index(marks, page) == len(marks)-1 {
				body = body[:len(body)-9]
			}
			return http.StatusOK, body
		}
		all, err := approvaltest.AllChanges(t.Context(), w.store(), time.Time{})
		require.OK(t, err)
		var got []string
		for _, d := range all {
			got = append(got, d.ID.Name)
		}
		if !slices.Equal(got, []string{"0", "1", "2"}) || len(marks) != pages+1 {
			t.Errorf("page %d garbled: Changes = %q after the pages %q", broken, got, marks)
		}
	}
}

// The client does not repeat the write. Instead it reads whether the write took effect.
func TestGarbledWrite(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			var w wire
			w.answer = func(call string, _ request) (int, string) {
				switch id := w.seen[0].ExpressionAttributeValues[":write_id"].S; {
				case call != "GetItem":
					return http.StatusOK, `{"half`
				case kept:
					return http.StatusOK, itemWith(id)
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
}
