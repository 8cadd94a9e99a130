package dynamo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The times of the samples. An item of the previous version has the next whole second after a time.
var (
	sampleNow  = time.Date(2026, 11, 22, 11, 0, 0, 0, time.UTC)
	sampleKeep = time.Date(2026, 11, 22, 12, 0, 0, 500_000_000, time.UTC)
	wholeKeep  = sampleKeep.Add(500 * time.Millisecond)
)

// A sample is an item that the previous version wrote.
type sample struct {
	item  string       // its attributes, in the JSON of DynamoDB
	doc   document.Doc // the document of the item, as a caller writes it
	rev   int64        // its revision; 0: the previous version set no revision
	exact bool         // the item has the exact expiry
}

func sampleOf(item string, rev int64, part, id, data string) sample {
	key := document.Key{Part: part, ID: id}
	return sample{item: item, rev: rev, doc: document.Doc{Key: key, Data: []byte(data)}}
}

func (s sample) marked(mark string) sample { s.doc.Mark = mark; return s }

func (s sample) kept(keep time.Time, exact bool) sample {
	s.doc.Keep, s.exact = keep, exact
	return s
}

// samples have one item of each kind.
var samples = map[string]sample{
	"stops": sampleOf(`"stop":{"S":"{\"list\":[],\"rev\":7}"},"rev":{"N":"7"},"write_id":{"S":"W"}`,
		7, "STOP", "STOP", `{"list":[],"rev":7}`),
	"token": sampleOf(`"token":{"S":"{}"},"rev":{"N":"2"},"write_id":{"S":"W"},`+
		`"last_used":{"S":"2026-11-22T10:00:00.000000000Z"}`,
		2, "TOKENS", "agt_1", `{}`).marked("2026-11-22T10:00:00.000000000Z"),
	"login": sampleOf(`"login":{"S":"{}"},"rev":{"N":"3"},"write_id":{"S":"W"},`+
		`"expires_at":{"N":"1795348801"}`,
		3, "LOGIN#SESSIONS", "s1", `{}`).kept(sampleKeep, false),
	"upstream session": sampleOf(`"session_id":{"S":"an id"},"protocol_version":{"S":"2025-11-25"},`+
		`"expires_at":{"N":"1795348801"}`,
		0, "SESSION#0a1b", "SESSION", "an id").marked("2025-11-25").kept(wholeKeep, false),
	"notice": sampleOf(`"doc":{"S":"{}"},"rev":{"N":"1"},"event_id":{"S":"e1"},`+
		`"expires_at":{"N":"1795348801"}`,
		1, "OUTBOX#OPEN", "17", `{}`).marked("e1").kept(wholeKeep, false),
	"seen event": sampleOf(`"expires_at":{"N":"1795348801"}`,
		0, "OUTBOX#SEEN", "e1", "").kept(sampleKeep, false),
	"asked": sampleOf(`"doc":{"S":"{\"list\":[]}"},"rev":{"N":"4"},"write_id":{"S":"W"}`,
		4, "ASK#k", "ASKED", `{"list":[]}`),
	"arguments": sampleOf(`"arguments":{"B":"eyJhIjoiAP8ifQ=="},`+
		`"expires":{"S":"2026-11-22T12:00:00.500000000Z"},"expires_at":{"N":"1795348801"}`,
		0, "ASK#k", "ARGS#R-1", "{\"a\":\"\x00\xff\"}").kept(sampleKeep, true),
	"pointer": sampleOf(`"agent":{"S":"k"},"expires":{"S":"2026-11-22T11:30:00.000000000Z"},`+
		`"kept":{"S":"2026-11-22T12:00:00.500000000Z"},"expires_at":{"N":"1795348801"}`,
		0, "ASK#", "R-1", "k").marked("2026-11-22T11:30:00.000000000Z").kept(sampleKeep, true),
	"granted": sampleOf(`"doc":{"S":"{}"},"rev":{"N":"5"},"write_id":{"S":"W"}`,
		5, "GRANT#k", "GRANTED", `{}`),
	"used": sampleOf(`"used_at":{"S":"2026-11-22T10:30:00.000000000Z"},"write_id":{"S":"W"},`+
		`"expires_at":{"N":"1795348801"}`,
		0, "USED#R-1", "USED", "2026-11-22T10:30:00.000000000Z").kept(sampleKeep, false),
	"page": sampleOf(`"server":{"S":"github"},"rev":{"N":"2"},"write_id":{"S":"W"},`+
		`"expires_at":{"N":"1795348801"}`,
		2, "PAGE#0a1b", "PAGE", "github").kept(sampleKeep, false),
	"baseline": sampleOf(`"baseline":{"S":"{\"identity\":\"i\"}"}`,
		0, "BASE#0a1b", "tools", `{"identity":"i"}`),
	"baseline by name": sampleOf(`"baseline":{"S":"{\"server\":\"s\"}"}`,
		0, "SRV#s", "BASELINE", `{"server":"s"}`),
}

// all returns the whole item, with more attributes.
func (s sample) all(more ...string) string {
	key := fmt.Sprintf(`"PK":{"S":%q},"SK":{"S":%q}`, s.doc.Part, s.doc.ID)
	return "{" + strings.Join(append([]string{key, s.item}, more...), ",") + "}"
}

// sampleStore returns a store at the time of the samples.
func sampleStore(w *wire) *dynamo.Store {
	db := client("http://dynamodb.test", w)
	return dynamo.New(db, "approvals", &store.Options{Now: func() time.Time { return sampleNow }})
}

func TestItemsOfPreviousVersion(t *testing.T) {
	for name, tt := range samples {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(string, request) (int, string) {
				return http.StatusOK, `{"Item":` + tt.all() + `}`
			}}
			got, err := sampleStore(w).Docs(t.Context(), tt.doc.Key)
			require.OK(t, err)
			want := tt.doc
			if want.Rev = tt.rev; want.Rev == 0 {
				want.Rev = 1 << 62
			}
			if !want.Keep.IsZero() && !tt.exact {
				want.Keep = wholeKeep
			}
			if d := cmp.Diff([]document.Doc{want}, got); d != "" {
				t.Errorf("Docs (-want +got):\n%s", d)
			}
		})
	}
}

// The previous version reads these attributes by name and type. It ignores others.
func TestItemsForPreviousVersion(t *testing.T) {
	for name, tt := range samples {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
			d := tt.doc
			d.Rev = max(tt.rev-1, 0)
			require.OK(t, sampleStore(w).PutDocs(t.Context(), d))
			var more []string
			if tt.rev == 0 {
				more = append(more, `"rev":{"N":"1"}`)
			}
			if !strings.Contains(tt.item, "write_id") {
				more = append(more, `"write_id":{"S":"W"}`)
			}
			if name == "seen event" {
				more = append(more, `"doc":{"S":""}`)
			}
			if d := cmp.Diff(asItem(t, tt.all(more...)), itemOf(t, w.bodies[0])); d != "" {
				t.Errorf("the item (-want +got):\n%s", d)
			}
		})
	}
}

func asItem(t *testing.T, text string) (it map[string]any) {
	t.Helper()
	require.OK(t, json.Unmarshal([]byte(text), &it))
	return it
}

// itemOf returns the attributes that a write sets, with the key and W as the id of the write.
func itemOf(t *testing.T, body string) map[string]any {
	t.Helper()
	var in struct {
		Item, Key, ExpressionAttributeValues map[string]any
		UpdateExpression                     string
		ExpressionAttributeNames             map[string]string
	}
	require.OK(t, json.Unmarshal([]byte(body), &in))
	it := in.Item
	if it == nil {
		it = in.Key
		sets, _, _ := strings.Cut(strings.TrimPrefix(in.UpdateExpression, "SET "), " REMOVE ")
		for set := range strings.SplitSeq(sets, ", ") {
			name, value, _ := strings.Cut(set, " = ")
			it[in.ExpressionAttributeNames[name]] = in.ExpressionAttributeValues[value]
		}
	}
	if id, ok := it["write_id"].(map[string]any); ok && id["S"] != "" {
		id["S"] = "W"
	}
	return it
}

// Roles may put documents of the vault, but not update them.
func TestVaultIsPut(t *testing.T) {
	for rev := range int64(2) {
		w := &wire{answer: func(string, request) (int, string) { return http.StatusOK, `{}` }}
		d := document.Doc{Key: document.Key{Part: "CRED#gateway", ID: "0a1b"}, Data: []byte(`{"v":1}`), Rev: rev}
		require.OK(t, sampleStore(w).PutDocs(t.Context(), d))
		if len(w.calls) != 1 || w.calls[0] != "PutItem" {
			t.Errorf("a write at revision %d makes %q", rev, w.calls)
		}
	}
}

// For dropped arguments the store has an item without them. The previous version always checks
// whether the item has the attribute.
func TestDroppedArguments(t *testing.T) {
	for name, now := range map[string]time.Time{
		"at once": sampleNow, "with an earlier clock": sampleNow.Add(-time.Hour),
	} {
		w := &wire{answer: func(call string, _ request) (int, string) {
			return http.StatusOK, `{"Item":{"PK":{"S":"ASK#k"},"SK":{"S":"ARGS#R-1"},"expires_at":{"N":"1795345201"}}}`
		}}
		o := &store.Options{Now: func() time.Time { return now }}
		s := dynamo.New(client("http://dynamodb.test", w), "approvals", o)
		key := samples["arguments"].doc.Key
		if got, err := s.Docs(t.Context(), key); err != nil || got[0].Rev != 0 || got[0].Data != nil {
			t.Errorf("%s: Docs = %+v, %v; want nothing", name, got, err)
		}
		require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: key, Data: []byte{}, Rev: 1, Keep: sampleNow}))
		it := itemOf(t, w.bodies[1])
		if _, kept := it["arguments"]; kept || cmp.Diff(it["expires_at"], map[string]any{"N": "1795345200"}) != "" {
			t.Errorf("%s: dropped arguments are stored as %v", name, it)
		}
	}
}

func TestBrokenDocument(t *testing.T) {
	for name, tt := range samples {
		data, _, _ := strings.Cut(tt.item, ":") // the first attribute
		if name == "seen event" {
			data = `"doc"`
		}
		damages := map[string]string{
			"with a number as data": tt.all(data + `:{"N":"1"}`),
			"with a broken number":  tt.all(`"rev":{"N":"x"}`),
			"with no first version": tt.all(`"rev":{"N":"0"}`),
			"of another key":        strings.Replace(tt.all(), `"SK":{"S":"`, `"SK":{"S":"x`, 1),
		}
		if name != "seen event" && name != "arguments" {
			damages["without data"] = strings.Replace(tt.all(), data, `"x"`, 1)
		}
		if !tt.doc.Keep.IsZero() {
			damages["with a broken end"] = tt.all(`"expires_at":{"S":""}`, `"kept":{"S":"soon"}`, `"expires":{"S":"soon"}`)
		}
		for damage, item := range damages {
			w := &wire{answer: func(call string, _ request) (int, string) {
				if call == "Query" {
					return http.StatusOK, `{"Items":[` + item + `]}`
				}
				return http.StatusOK, `{"Item":` + item + `}`
			}}
			got, err := sampleStore(w).Docs(t.Context(), tt.doc.Key)
			if err == nil || len(w.calls) != 2 {
				t.Errorf("%s %s: Docs = %+v, %v after %d requests; want an error after 2", name, damage, got, err, len(w.calls))
			}
			if damage == "of another key" {
				continue
			}
			got, all, err := sampleStore(w).ListDocs(t.Context(), tt.doc.Part)
			if err != nil || all || len(got) > 0 {
				t.Errorf("%s %s: ListDocs = %+v, all: %v, %v; want all: false", name, damage, got, all, err)
			}
		}
	}
}
