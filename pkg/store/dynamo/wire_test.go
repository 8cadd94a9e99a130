package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A wire answers the requests of the real client without a network, so that its retries can use the
// time of the test.
type wire struct {
	answer func(call string, in request) (status int, body string)
	mu     sync.Mutex
	calls  []string
	seen   []request
	bodies []string
}

// A request is the part of DynamoDB's input that the tests read.
type request struct {
	ConsistentRead    bool
	IndexName         string
	Limit             int
	ExclusiveStartKey map[string]any
	RequestItems      map[string]struct {
		ConsistentRead bool
		Keys           []map[string]any
	}
	write
	Key map[string]any
	update
	TransactItems []transactItem
}

// A transactItem is one write of a transaction.
type transactItem struct {
	Update update
	Put    write
}

// A write replaces an item.
type write struct {
	Item                                map[string]struct{ S, N string }
	ReturnValuesOnConditionCheckFailure string
}

// An update is the write of a record.
type update struct {
	UpdateExpression          string
	ConditionExpression       string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]struct {
		S, N string
		B    []byte
		M    json.RawMessage
	}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in request
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies = append(w.bodies, string(data))
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.calls, w.seen = append(w.calls, call), append(w.seen, in)
	status, body := w.answer(call, in)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

func (w *wire) store() *dynamo.Store {
	return dynamo.New(client("http://dynamodb.test", w), "approvals", nil)
}

// fault is an error answer of DynamoDB.
func fault(code string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"arn:aws:dynamodb:us-east-1:123456789012:table/approvals"}`, code)
}

// cancelled is the answer to a transaction that was cancelled for the reasons.
func cancelled(reasons ...string) string {
	var codes []string
	for _, reason := range reasons {
		codes = append(codes, fmt.Sprintf(`{"Code":%q}`, reason))
	}
	return `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"cancelled","CancellationReasons":[` + strings.Join(codes, ",") + `]}`
}

// itemWith is the GetItem answer with the given write id.
func itemWith(writeID string) string {
	return fmt.Sprintf(`{"Item":{"record":{"S":"{\"server\":\"s\",\"tool\":\"t\",\"rev\":1}"},"write_id":{"S":%q}}}`, writeID)
}

var (
	waiting = approval.Record{Server: "s", Tool: "t", State: approval.Pending}
	line    = &approval.Entry{Server: "s", Tool: "t", Actor: "ada", Action: "observe"}
)

func TestRequests(t *testing.T) {
	w := &wire{answer: func(call string, _ request) (int, string) {
		if call == "GetItem" {
			return http.StatusOK, itemWith("w")
		}
		return http.StatusOK, `{"Items":[]}`
	}}
	s := w.store()
	_, get := s.Get(t.Context(), waiting.ID())
	_, records := s.Records(t.Context(), "s")
	_, changes := approvaltest.AllChanges(t.Context(), s, time.Time{})
	_, put := s.Put(t.Context(), waiting, nil)
	_, both := s.Put(t.Context(), waiting, line)
	_, audit := s.Audit(t.Context(), "s", approval.Cursor{}, 10)
	require.OK(t, errors.Join(get, records, changes, put, both, audit))
	if d := cmp.Diff([]string{"GetItem", "Query", "Query", "UpdateItem", "TransactWriteItems", "Query"}, w.calls); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	if !w.seen[0].ConsistentRead || !w.seen[1].ConsistentRead || !w.seen[5].ConsistentRead {
		t.Error("a read of the table is not strongly consistent")
	}
	if w.seen[2].IndexName != "decisions" || w.seen[2].ConsistentRead {
		t.Errorf("Changes sent %+v, want the index decisions, which is never consistent", w.seen[2])
	}
	if n := len(w.seen[4].TransactItems); n != 2 {
		t.Errorf("the transaction has %d items, want record and audit line", n)
	}
}

// A write sets its own attributes and does not replace the item, so that the attributes of a newer
// program stay. Only a decision adds the record to the index.
func TestPutAttributes(t *testing.T) {
	own := []string{"approved", "approved_hash", "blocked", "current", "current_hash", "disabled", "record", "rev", "state", "undo_approved", "updated_at", "write_id"}
	decided := waiting
	decided.DecidedAt = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	for name, tt := range map[string]struct {
		record approval.Record
		want   []string
	}{
		"nobody decided": {waiting, own},
		"decided":        {decided, append([]string{"decided_at", "feed"}, own...)},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
			for _, e := range []*approval.Entry{nil, line} {
				if _, err := w.store().Put(t.Context(), tt.record, e); err != nil {
					t.Fatal(err)
				}
			}
			want := slices.Sorted(slices.Values(tt.want))
			for i, up := range []update{w.seen[0].update, w.seen[1].TransactItems[0].Update} {
				if got := slices.Sorted(maps.Values(up.ExpressionAttributeNames)); !slices.Equal(got, want) {
					t.Errorf("write %d touches %q, want %q", i, got, want)
				}
			}
		})
	}
}

// Only an audit line expires. If a record expired, the next sync would treat its item as new.
func TestAuditExpiry(t *testing.T) {
	now := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	for name, tt := range map[string]struct {
		keep time.Duration
		want string
	}{
		"for ever": {0, ""},
		"30 days":  {30 * 24 * time.Hour, fmt.Sprint(now.AddDate(0, 0, 30).Unix())},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
			s := dynamo.New(client("http://dynamodb.test", w), "approvals", &store.Options{Now: func() time.Time { return now }, KeepAudit: tt.keep})
			if _, err := s.Put(t.Context(), waiting, line); err != nil {
				t.Fatal(err)
			}
			items := w.seen[0].TransactItems
			if got := items[1].Put.Item["expires_at"].N; got != tt.want {
				t.Errorf("the line expires at %q, want %q", got, tt.want)
			}
			if _, ends := items[0].Update.ExpressionAttributeValues[":expires_at"]; ends {
				t.Error("the record has an expiry")
			}
		})
	}
}

func TestThrottling(t *testing.T) {
	for name, busy := range map[string]struct {
		status int
		body   string
	}{
		"throughput":  {http.StatusBadRequest, fault("ProvisionedThroughputExceededException")},
		"throttling":  {http.StatusBadRequest, fault("ThrottlingException")},
		"limit":       {http.StatusBadRequest, fault("RequestLimitExceeded")},
		"server":      {http.StatusInternalServerError, fault("InternalServerError")},
		"transaction": {http.StatusBadRequest, cancelled("None", "ThrottlingError")},
		"partition":   {http.StatusBadRequest, cancelled("ProvisionedThroughputExceeded", "None")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const refusals = 6
				w := new(wire)
				w.answer = func(string, request) (int, string) {
					if len(w.calls) <= refusals {
						return busy.status, busy.body
					}
					return http.StatusOK, `{}`
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := w.store().Put(ctx, waiting, line); err != nil {
					t.Errorf("Put after %d refusals: %v", refusals, err)
				}
				if len(w.calls) != refusals+1 {
					t.Errorf("%d requests, want %d", len(w.calls), refusals+1)
				}
			})
		})
	}
}

func TestThrottlingUntilTheDeadline(t *testing.T) {
	for name, budget := range map[string]time.Duration{"200 ms": 200 * time.Millisecond, "2 s": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(string, request) (int, string) {
					return http.StatusBadRequest, fault("ProvisionedThroughputExceededException")
				}}
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				begin := time.Now()
				_, err := w.store().Get(ctx, waiting.ID())
				if took := time.Since(begin); err == nil || took > budget {
					t.Errorf("Get = %v after %v, want an error within %v", err, took, budget)
				}
				if len(w.calls) < 3 {
					t.Errorf("%d requests in %v: the budget was not used", len(w.calls), budget)
				}
			})
		})
	}
}

func TestThrottlingWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(string, request) (int, string) {
			return http.StatusBadRequest, fault("ThrottlingException")
		}}
		if _, err := approvaltest.AllChanges(t.Context(), w.store(), time.Time{}); err == nil || len(w.calls) != 12 {
			t.Errorf("Changes = %v after %d requests, want an error after 12", err, len(w.calls))
		}
	})
}

func TestErrorsWithoutRetry(t *testing.T) {
	for _, code := range []string{"AccessDeniedException", "ValidationException", "ResourceNotFoundException"} {
		w := &wire{answer: func(string, request) (int, string) { return http.StatusBadRequest, fault(code) }}
		_, err := w.store().Get(t.Context(), waiting.ID())
		if err == nil || errors.Is(err, approval.ErrNotFound) || len(w.calls) != 1 {
			t.Errorf("%s: Get = %v after %d requests, want an error after 1", code, err, len(w.calls))
		}
	}
}

func TestRefusedWrite(t *testing.T) {
	other := func(request) string { return itemWith("another writer's") }
	for _, test := range []struct {
		name     string
		refusal  string
		entry    *approval.Entry
		stored   func(own request) string
		conflict bool
	}{
		{"one, own write", fault("ConditionalCheckFailedException"), nil, func(r request) string { return itemWith(r.ExpressionAttributeValues[":write_id"].S) }, false},
		{"one, another write", fault("ConditionalCheckFailedException"), nil, other, true},
		{"one item, gone", fault("ConditionalCheckFailedException"), nil, func(request) string { return `{}` }, true},
		{"one item in another's transaction", fault("TransactionConflictException"), nil, other, true},
		{"two, own write", cancelled("ConditionalCheckFailed", "None"), line, func(r request) string {
			return itemWith(r.TransactItems[0].Update.ExpressionAttributeValues[":write_id"].S)
		}, false},
		{"two, another write", cancelled("ConditionalCheckFailed", "None"), line, other, true},
		{"two items in another's transaction", cancelled("TransactionConflict", "None"), line, other, true},
		{"two items, refused and throttled", cancelled("ConditionalCheckFailed", "ThrottlingError"), line, other, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := new(wire)
			w.answer = func(call string, _ request) (int, string) {
				if call == "GetItem" {
					return http.StatusOK, test.stored(w.seen[0])
				}
				return http.StatusBadRequest, test.refusal
			}
			r, err := w.store().Put(t.Context(), waiting, test.entry)
			if errors.Is(err, approval.ErrConflict) != test.conflict || !test.conflict && (err != nil || r.Rev != 1) {
				t.Errorf("Put = rev %d, %v; want a conflict: %v", r.Rev, err, test.conflict)
			}
		})
	}
}

func TestRefusedWriteUnread(t *testing.T) {
	w := &wire{answer: func(call string, _ request) (int, string) {
		if call == "GetItem" {
			return http.StatusBadRequest, fault("AccessDeniedException")
		}
		return http.StatusBadRequest, fault("ConditionalCheckFailedException")
	}}
	if _, err := w.store().Put(t.Context(), waiting, nil); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("Put = %v, want ErrConflict", err)
	}
}

func TestPages(t *testing.T) {
	const pages = 4
	w, sort := new(wire), "TOOL"
	w.answer = func(_ string, in request) (int, string) {
		page := 0
		if in.ExclusiveStartKey != nil {
			page = int(in.ExclusiveStartKey["page"].(map[string]any)["S"].(string)[0] - '0')
		}
		items := fmt.Sprintf(`{"record":{"S":"{\"server\":\"s\",\"tool\":\"t%d\"}"},"entry":{"S":"{\"tool\":\"t%d\"}"},"PK":{"S":"SRV#s"},"SK":{"S":"%s#t%d"},
			"rev":{"N":"1"},"disabled":{"BOOL":false},"decided_at":{"S":"2026-03-14T15:09:26.535897932Z"}}`, page, page, sort, page)
		if page == 1 {
			items = "" // a page may be empty and not be the last
		}
		last := ""
		if page < pages-1 {
			last = fmt.Sprintf(`,"LastEvaluatedKey":{"page":{"S":"%d"}}`, page+1)
		}
		return http.StatusOK, `{"Items":[` + items + `]` + last + `}`
	}
	s := w.store()
	decisions, changes := approvaltest.AllChanges(t.Context(), s, time.Time{})
	records, err := s.Records(t.Context(), "s")
	require.OK(t, errors.Join(changes, err))
	var got, whole []string
	for _, d := range decisions {
		got = append(got, d.ID.Name)
	}
	for _, r := range records {
		whole = append(whole, r.Tool)
	}
	if want := []string{"t0", "t2", "t3"}; !slices.Equal(got, want) || !slices.Equal(whole, want) {
		t.Errorf("Changes = %q, Records = %q, want %q", got, whole, want)
	}
	w.calls, sort = nil, "2026-03-14T15:09:26.535897932Z"
	lines, err := s.Audit(t.Context(), "s", approval.Cursor{}, 2)
	if err != nil || len(lines) != 2 || lines[1].Tool != "t2" || lines[1].Written.Nanosecond() != 535897932 || len(w.calls) != 3 {
		t.Errorf("Audit(2) = %+v, %v after %d pages, want t0 and t2 after 3", lines, err, len(w.calls))
	}
}

func TestBrokenItem(t *testing.T) {
	const broken = `{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"record":{"S":"{"}}`
	w := &wire{answer: func(call string, _ request) (int, string) {
		if call == "GetItem" {
			return http.StatusOK, `{"Item":` + broken + `}`
		}
		return http.StatusOK, `{"Items":[` + broken + `]}`
	}}
	_, get := w.store().Get(t.Context(), tool.ID{Server: "s", Name: "t"})
	_, records := w.store().Records(t.Context(), "s")
	_, changes := approvaltest.AllChanges(t.Context(), w.store(), time.Time{})
	for name, err := range map[string]error{"Get": get, "Records": records, "Changes": changes} {
		if err == nil || !strings.Contains(err.Error(), `"TOOL#t"`) {
			t.Errorf("%s = %v, want an error that names the item", name, err)
		}
	}
}

func TestLargestItem(t *testing.T) {
	const limit = 400 << 10
	longest := approval.Record{
		Server: strings.Repeat("s", approval.MaxName), Tool: strings.Repeat("\x01", approval.MaxName), State: approval.Changed,
		URL:  strings.Repeat("\x01", 8<<10), // each byte needs six in JSON
		Note: strings.Repeat("\x01", approval.MaxNote), By: strings.Repeat("\x01", approval.MaxActor),
		Approved: bytes.Repeat([]byte("a"), tool.MaxDefinition), Current: bytes.Repeat([]byte("b"), tool.MaxDefinition),
	}
	for range 50 {
		longest.ApprovedBefore = append(longest.ApprovedBefore, approval.Remembered{Hash: tool.Hash(strings.Repeat("a", 64)), By: strings.Repeat("\x01", 50), At: time.Now()})
	}
	for range 50 {
		longest.Blocked = append(longest.Blocked, approval.Remembered{
			Hash: tool.Hash(strings.Repeat("a", 64)), By: strings.Repeat("b", 100), Note: strings.Repeat("n", 200), At: time.Now(),
		})
	}
	longest.Endorsed, longest.Tell = longest.ApprovedBefore[0], true
	lost := approval.Version{ApprovedHash: tool.Hash(strings.Repeat("a", 64)), By: longest.By, Note: strings.Repeat("\x01", 400), At: time.Now(), Rev: 1 << 40}
	longest.Loss = &approval.Loss{At: time.Now(), Catalog: lost, Store: &lost}
	size := 0
	w := new(wire)
	s := dynamo.New(client("http://dynamodb.test", roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var in update
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		for name, v := range in.ExpressionAttributeValues {
			size += len(name) + len(v.S) + len(v.N) + len(v.B) + len(v.M)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.answer = func(string, request) (int, string) { return http.StatusOK, `{}` }
		return w.RoundTrip(r)
	})), "approvals", nil)
	resource := longest
	resource.Tool, resource.Kind = strings.Repeat("u", tool.MaxURI*9/10)+strings.Repeat("&", tool.MaxURI/10), tool.Resource
	for _, r := range []approval.Record{longest, resource} {
		size = 0
		if _, err := s.Put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if size < 2*tool.MaxDefinition || size > limit {
			t.Errorf("the item of a %v has %d bytes, want at most %d", r.Kind, size, limit)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A decision belongs to the resource whose URI has the hash in its key, or to none. An item of an
// unknown kind does not count as a tool.
func TestBrokenItemKeys(t *testing.T) {
	for _, sk := range []string{"RES#" + (tool.ID{Name: "a://other"}).Sum(), "RES#", "SKILL#a", "PROMPT"} {
		w := &wire{answer: func(string, request) (int, string) {
			return http.StatusOK, `{"Items":[{"PK":{"S":"SRV#s"},"SK":{"S":"` + sk + `"},"rev":{"N":"1"},"disabled":{"BOOL":false},
				"decided_at":{"S":"2026-03-14T15:09:26.535897932Z"},"blocked":{"M":{"uri":{"S":"a://b"}}}}]}`
		}}
		if ds, err := approvaltest.AllChanges(t.Context(), w.store(), time.Time{}); err == nil || !strings.Contains(err.Error(), sk) {
			t.Errorf("Changes = %+v, %v; want an error that names %s", ds, err, sk)
		}
	}
}

// A broken "blocked" attribute never counts as empty.
func TestBrokenVerdicts(t *testing.T) {
	for _, verdicts := range []string{`{"BOOL":true}`, `{"M":{"hashes":{"S":"aa"}}}`} {
		w := &wire{answer: func(string, request) (int, string) {
			return http.StatusOK, `{"Items":[{"PK":{"S":"SRV#s"},"SK":{"S":"TOOL#t"},"rev":{"N":"1"},"disabled":{"BOOL":false},
				"decided_at":{"S":"2026-03-14T15:09:26.535897932Z"},"blocked":` + verdicts + `}]}`
		}}
		if _, err := approvaltest.AllChanges(t.Context(), w.store(), time.Time{}); err == nil || !strings.Contains(err.Error(), `"TOOL#t"`) {
			t.Errorf("Changes with %s = %v, want an error that names the item", verdicts, err)
		}
	}
}
