package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The items of a batch in the form of DynamoDB, and their keys.
const (
	recordItem = `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{\"server\":\"s\",\"tool\":\"t\",\"rev\":3}"}}`
	stopItem   = `{"PK":{"S":"STOP"},"SK":{"S":"STOP"},"stop":{"S":"{}"},"rev":{"N":"2"}}`
	grantItem  = `{"PK":{"S":"GRANT#k"},"SK":{"S":"GRANTED"},"doc":{"S":"{}"},"rev":{"N":"4"}}`
)

var (
	stopKey  = document.Key{Part: "STOP", ID: "STOP"}
	grantKey = document.Key{Part: "GRANT#k", ID: "GRANTED"}
)

// batchOf returns the answer to a batch, with items and with the keys that the table did not
// process.
func batchOf(items string, left ...document.Key) string {
	var keys []string
	for _, k := range left {
		keys = append(keys, fmt.Sprintf(`{"PK":{"S":%q},"SK":{"S":%q}}`, k.Part, k.ID))
	}
	unprocessed := ""
	if len(left) > 0 {
		unprocessed = `"approvals":{"ConsistentRead":true,"Keys":[` + strings.Join(keys, ",") + `]}`
	}
	return `{"Responses":{"approvals":[` + items + `]},"UnprocessedKeys":{` + unprocessed + `}}`
}

// Only documents that are written together use a transaction, because a transaction costs twice as
// much. There are IAM roles that may touch a token but write no other attribute of it, and roles
// that may put stops but not update them.
func TestRequestsOfDocuments(t *testing.T) {
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
	s, ctx := w.store(), t.Context()
	var errs []error
	put := func(docs ...document.Doc) { errs = append(errs, s.PutDocs(ctx, docs...)) }
	_, one := s.Docs(ctx, stopKey)
	_, _, list := s.ListDocs(ctx, "ASK#")
	errs = append(errs, one, list, s.TouchDoc(ctx, samples["token"].doc.Key, "now"))
	stops, token, notice := samples["stops"].doc, samples["token"].doc, samples["notice"].doc
	put(stops)
	stops.Rev = 7
	put(stops)
	put(token)
	put(notice)
	notice.Rev, notice.Mark = 1, ""
	put(notice)
	put(document.Doc{Key: notice.Key, Rev: 1})
	put(stops, token, document.Doc{Key: notice.Key, Rev: 2})
	require.OK(t, errors.Join(errs...))
	want := []string{
		"GetItem", "Query", "UpdateItem", "PutItem", "PutItem", "UpdateItem", "PutItem",
		"UpdateItem", "DeleteItem", "TransactWriteItems",
	}
	if !slices.Equal(w.calls, want) {
		t.Errorf("requests %q, want %q", w.calls, want)
	}
	if !w.seen[0].ConsistentRead || !w.seen[1].ConsistentRead {
		t.Error("a read is not strongly consistent")
	}
	touch := w.seen[2]
	names, values := touch.ExpressionAttributeNames, touch.ExpressionAttributeValues
	if touch.ConditionExpression != "attribute_exists(PK)" || len(names) != 1 || len(values) != 1 {
		t.Errorf("TouchDoc of a token names more than its key and mark: %+v", touch)
	}
}

// Docs makes one GetItem for each document, since most IAM roles may not read in another way. It
// returns all documents or none.
func TestSeveralDocuments(t *testing.T) {
	w := &wire{answer: func(_ string, in request) (int, string) {
		id := in.Key["SK"].(map[string]any)["S"].(string)
		if id == "7" {
			return http.StatusOK, `{}`
		}
		return http.StatusOK, fmt.Sprintf(`{"Item":{"PK":{"S":"BASE#a"},"SK":{"S":%q},"baseline":{"S":%q}}}`, id, id)
	}}
	keys := make([]document.Key, 40)
	for i := range keys {
		keys[i] = document.Key{Part: "BASE#a", ID: fmt.Sprint(i % 39)} // one key is requested twice
	}
	docs, err := w.store().Docs(t.Context(), keys...)
	if err != nil || len(docs) != 40 || len(w.calls) != 40 || slices.Contains(w.calls, "BatchGetItem") {
		t.Errorf("Docs = %d documents, %v after %q", len(docs), err, w.calls)
	}
	for i, d := range docs {
		if d.Key != keys[i] || (d.ID == "7") != (d.Rev == 0) || d.Rev != 0 && string(d.Data) != d.ID {
			t.Errorf("document %d is %+v", i, d)
		}
	}
	w.answer = func(_ string, in request) (int, string) {
		if in.Key["SK"].(map[string]any)["S"] == "7" {
			return http.StatusBadRequest, fault("AccessDeniedException")
		}
		return http.StatusOK, `{}`
	}
	if docs, err := w.store().Docs(t.Context(), keys...); err == nil || docs != nil || !strings.Contains(err.Error(), `"BASE#a" "7"`) {
		t.Errorf("Docs = %+v, %v; want an error that names the document", docs, err)
	}
}

// A call needs one read request: the record, the stops and, if the agent has requests, the grants.
func TestRecordWithDocuments(t *testing.T) {
	for items, wantErr := range map[string]error{
		stopItem + "," + recordItem + "," + grantItem: nil,
		grantItem + "," + stopItem:                    approval.ErrNotFound,
	} {
		w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, batchOf(items) }}
		r, docs, err := w.store().GetWith(t.Context(), waiting.ID(), stopKey, grantKey)
		if !errors.Is(err, wantErr) || (r.Rev == 3) != (wantErr == nil) ||
			len(docs) != 2 || docs[0].Rev != 2 || docs[1].Rev != 4 {
			t.Errorf("GetWith = rev %d, %+v, %v; want %v", r.Rev, docs, err, wantErr)
		}
		asked := w.seen[0].RequestItems["approvals"]
		if !slices.Equal(w.calls, []string{"BatchGetItem"}) || !asked.ConsistentRead || len(asked.Keys) != 3 {
			t.Errorf("requests %q %+v, want one consistent BatchGetItem of 3 keys", w.calls, asked)
		}
	}
}

// If the answer has an item under a key that was not requested, this may be a requested item with a
// damaged key. So the requested item does not count as absent.
func TestRecordWithBrokenDocuments(t *testing.T) {
	for name, items := range map[string]string{
		"a stop at another key": recordItem + `,` + strings.Replace(stopItem, "STOP", "STOQ", 1),
		"a stop without stops":  recordItem + `,` + strings.Replace(stopItem, `"stop"`, `"stops"`, 1),
		"an invalid record":     `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{"}}`,
	} {
		w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, batchOf(items) }}
		r, docs, err := w.store().GetWith(t.Context(), waiting.ID(), stopKey)
		if err == nil || errors.Is(err, approval.ErrNotFound) || len(w.calls) != 2 {
			t.Errorf("%s: GetWith = %+v, %+v, %v after %q; want an error after 2 requests", name, r, docs, err, w.calls)
		}
	}
}

// A busy table answers for only some of the keys. The other items may still exist.
func TestDocumentsAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wire
		w.answer = func(string, request) (int, string) {
			switch len(w.calls) {
			case 1:
				return http.StatusOK, batchOf(recordItem, stopKey, grantKey)
			case 2, 3:
				return http.StatusOK, batchOf("", stopKey, grantKey)
			case 4:
				return http.StatusOK, batchOf(stopItem, grantKey)
			}
			return http.StatusOK, batchOf(grantItem)
		}
		r, docs, err := w.store().GetWith(t.Context(), waiting.ID(), stopKey, grantKey)
		if err != nil || r.Rev != 3 || docs[0].Rev != 2 || docs[1].Rev != 4 || len(w.calls) != 5 {
			t.Errorf("GetWith = rev %d, %+v, %v after %d requests", r.Rev, docs, err, len(w.calls))
		}
		for i, want := range []int{3, 2, 2, 2, 1} {
			if asked := w.seen[i].RequestItems["approvals"]; len(asked.Keys) != want || !asked.ConsistentRead {
				t.Errorf("request %d has %+v, want %d keys", i, asked, want)
			}
		}
		w.answer = func(string, request) (int, string) {
			return http.StatusOK, batchOf(recordItem+","+stopItem, grantKey)
		}
		_, docs, err = w.store().GetWith(t.Context(), waiting.ID(), stopKey, grantKey)
		if err == nil || errors.Is(err, approval.ErrNotFound) {
			t.Errorf("GetWith without an answer for the grants = %+v, %v", docs, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _, err = w.store().GetWith(ctx, waiting.ID(), stopKey, grantKey)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("GetWith = %v at its deadline", err)
		}
	})
}

// refusal is the answer to a write whose condition failed, with the stored item.
func refusal(writeID string) string {
	stored := `{"Item":{"write_id":{"S":"` + writeID + `"}},`
	return strings.Replace(fault("ConditionalCheckFailedException"), "{", stored, 1)
}

// A refusal contains the write id of the stored item, so the store recognizes its own earlier
// write. A role that may only put needs no right to read for this.
func TestRefusedDocuments(t *testing.T) {
	asked, pointer, args := samples["asked"].doc, samples["pointer"].doc, samples["arguments"].doc
	one, three := []document.Doc{asked}, []document.Doc{asked, pointer, args}
	const other, failed = "another writer's", "ConditionalCheckFailed"
	// stored is the answer to a transaction, with the item of the first condition that failed.
	stored := func(id string, reasons ...string) string {
		item := fmt.Sprintf(`%q,"Item":{"write_id":{"S":%q}}`, failed, id)
		return strings.Replace(cancelled(reasons...), `"`+failed+`"`, item, 1)
	}
	always := func(answer string) func(string) string { return func(string) string { return answer } }
	for _, tt := range []struct {
		name   string
		docs   []document.Doc
		answer func(own string) string
		want   document.Key // key of the conflict; zero: there is none
	}{
		{"one, own write", one, refusal, document.Key{}},
		{"one, another write", one, always(refusal(other)), asked.Key},
		{"one document, gone", one, always(fault(failed + "Exception")), asked.Key},
		{"a deleted document", []document.Doc{{Key: asked.Key, Rev: 1}}, always(refusal(other)), asked.Key},
		{"three, own write", three, func(own string) string { return stored(own, failed, "None", "None") }, document.Key{}},
		{"three, another write", three, always(stored(other, "None", failed, "None")), pointer.Key},
		{"refused and throttled", three, always(cancelled("ThrottlingError", "None", failed)), args.Key},
		{"refused and in another's transaction", three, always(cancelled("TransactionConflict", failed, "None")), pointer.Key},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := new(wire)
			w.answer = func(string, request) (int, string) {
				return http.StatusBadRequest, tt.answer(writeIDOf(w.seen[0]))
			}
			err := w.store().PutDocs(t.Context(), tt.docs...)
			var got document.Key
			if conflict, ok := errors.AsType[*document.ConflictError](err); ok {
				got = conflict.Key
			}
			if got != tt.want || (err == nil) != (tt.want.Part == "") || len(w.calls) != 1 {
				t.Errorf("PutDocs = %v after %q, want a conflict about %q", err, w.calls, tt.want)
			}
			for _, in := range append(w.seen[0].TransactItems, transactItem{Put: w.seen[0].write}) {
				if in.Put.Item != nil && in.Put.ReturnValuesOnConditionCheckFailure != "ALL_OLD" {
					t.Error("a write does not request the stored item")
				}
			}
		})
	}
}

// writeIDOf returns the id of the first write in a request.
func writeIDOf(in request) string {
	if len(in.TransactItems) > 0 {
		return in.TransactItems[0].Put.Item["write_id"].S
	}
	return in.Item["write_id"].S
}

// Other errors are no conflict, because callers read a conflict as a changed revision. So the
// client repeats a write while another transaction writes the same item.
func TestFailedDocuments(t *testing.T) {
	docs := []document.Doc{samples["asked"].doc, samples["pointer"].doc}
	for _, tt := range []struct {
		name, fault string
		docs        []document.Doc
		tries       int // number of requests, if none succeeds
	}{
		{"in another's transaction", fault("TransactionConflictException"), docs[:1], 12},
		{"both in another's transaction", cancelled("TransactionConflict", "None"), docs, 12},
		{"in another's transaction, and throttled", cancelled("TransactionConflict", "ThrottlingError"), docs, 12},
		{"throttled", fault("ProvisionedThroughputExceededException"), docs[:1], 12},
		{"both throttled", cancelled("None", "ThrottlingError"), docs, 12},
		{"too large", cancelled("ValidationError", "None"), docs, 1},
		{"not allowed", fault("AccessDeniedException"), docs, 1},
	} {
		for _, recovers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, recovers: %v", tt.name, recovers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := new(wire)
					w.answer = func(string, request) (int, string) {
						if recovers && len(w.calls) == 4 {
							return http.StatusOK, `{}`
						}
						return http.StatusBadRequest, tt.fault
					}
					err := w.store().PutDocs(t.Context(), tt.docs...)
					tries := tt.tries
					if recovers {
						tries = min(tries, 4)
					}
					conflict := errors.Is(err, document.ErrConflict) || errors.Is(err, approval.ErrConflict)
					if (err == nil) != (tries == 4) || conflict || len(w.calls) != tries {
						t.Errorf("PutDocs = %v after %d requests, want %d", err, len(w.calls), tries)
					}
				})
			})
		}
	}
}

// The client does not repeat a write whose answer cannot be decoded: the store reads the item to
// check whether the write took effect. If that read fails, the write counts as failed.
func TestGarbledDocumentWrites(t *testing.T) {
	docs := []document.Doc{samples["asked"].doc, samples["pointer"].doc}
	for name, kept := range map[string]string{"the write took effect": "own", "an item of another writer": "other", "the item cannot be read": ""} {
		for n := range docs {
			w := new(wire)
			w.answer = func(call string, _ request) (int, string) {
				switch id := writeIDOf(w.seen[0]); {
				case call != "GetItem" || kept == "":
					return http.StatusOK, `{"half`
				case kept == "own":
					return http.StatusOK, itemWith(id)
				}
				return http.StatusOK, itemWith("another writer's")
			}
			err := w.store().PutDocs(t.Context(), docs[:n+1]...)
			if (err == nil) != (kept == "own") || errors.Is(err, document.ErrConflict) {
				t.Errorf("%d documents, %s: PutDocs = %v", n+1, name, err)
			}
		}
	}
	w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{"half` }}
	if err := w.store().PutDocs(t.Context(), document.Doc{Key: docs[0].Key, Rev: 1}); err == nil || len(w.calls) != 1 {
		t.Errorf("PutDocs = %v after %q, want an error of the delete", err, w.calls)
	}
}

// A list for people ends after a limited number of pages and reports that it is incomplete. A list
// that must be complete has no limit.
func TestListDocsInPages(t *testing.T) {
	for part, want := range map[string]int{"ASK#": 4, "OUTBOX#OPEN": 8, "TOKENS": 20, "LOGIN#SESSIONS": 20} {
		w := new(wire)
		w.answer = func(_ string, in request) (int, string) {
			n, next := len(w.calls), ""
			if n < 20 {
				next = fmt.Sprintf(`,"LastEvaluatedKey":{"page":{"S":"%d"}}`, n)
			}
			item := fmt.Sprintf(`"PK":{"S":%q},"SK":{"S":"%02d"},"rev":{"N":"1"},"agent":{"S":"k"},`+
				`"doc":{"S":"{}"},"token":{"S":"{}"},"login":{"S":"{}"}`, part, n)
			return http.StatusOK, `{"Items":[{` + item + `}]` + next + `}`
		}
		docs, all, err := w.store().ListDocs(t.Context(), part)
		if err != nil || all != (want == 20) || len(docs) != want || len(w.calls) != want ||
			docs[want-1].ID != fmt.Sprintf("%02d", want) {
			t.Errorf("ListDocs(%q) = %d documents, all: %v, %v after %q", part, len(docs), all, err, w.calls)
		}
	}
}
