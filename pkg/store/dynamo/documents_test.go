package dynamo_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestDocuments runs against the table of infra/data.yaml.
func TestDocuments(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "documents")
	t.Run("the store fulfills its contract", func(t *testing.T) {
		documenttest.Run(t, func(t *testing.T, now func() time.Time) document.Store {
			return dynamo.New(client(endpoint, http.DefaultTransport), table(t), &store.Options{Now: now})
		})
	})
	t.Run("a write whose answer is lost takes effect", func(t *testing.T) {
		documenttest.RunLost(t, func(t *testing.T) (document.Store, func()) {
			transport := new(emulator.Lossy)
			return dynamo.New(client(endpoint, transport), table(t), nil), transport.LoseNext
		})
	})
	t.Run("an item of the previous version is changed", func(t *testing.T) {
		checkUnnumbered(t, client(endpoint, http.DefaultTransport), table(t))
		checkFixed(t, client(endpoint, http.DefaultTransport), table(t))
	})
	t.Run("an item of the previous version has expired", func(t *testing.T) {
		checkEnded(t, client(endpoint, http.DefaultTransport), table(t))
	})
	t.Run("a document is no approval record", func(t *testing.T) {
		s := dynamo.New(client(endpoint, http.DefaultTransport), table(t), nil)
		for _, tt := range samples {
			d := tt.doc
			d.Keep = time.Time{}
			require.OK(t, s.PutDocs(t.Context(), d))
		}
		changed, err := approvaltest.AllChanges(t.Context(), s, time.Time{})
		records, recordsErr := s.Records(t.Context(), "s")
		if err := errors.Join(err, recordsErr); err != nil || len(changed)+len(records) != 0 {
			t.Errorf("Changes = %v, Records = %v, %v; want nothing", changed, records, err)
		}
	})
	t.Run("the error names a missing table", func(t *testing.T) {
		s, d := dynamo.New(client(endpoint, http.DefaultTransport), "no-such-table", nil), samples["asked"].doc
		_, one := s.Docs(t.Context(), d.Key)
		_, two := s.Docs(t.Context(), d.Key, stopKey)
		_, _, with := s.GetWith(t.Context(), waiting.ID(), d.Key)
		_, _, list := s.ListDocs(t.Context(), d.Part)
		for call, err := range map[string]error{
			"Docs": one, "Docs of two": two, "GetWith": with, "ListDocs": list,
			"TouchDoc": s.TouchDoc(t.Context(), d.Key, "m"),
			"PutDocs":  s.PutDocs(t.Context(), d), "PutDocs of two": s.PutDocs(t.Context(), d, samples["stops"].doc),
			"PutDocs of none": s.PutDocs(t.Context(), document.Doc{Key: d.Key}),
		} {
			other := errors.Is(err, document.ErrConflict) || errors.Is(err, document.ErrNotFound) || errors.Is(err, approval.ErrNotFound)
			if err == nil || other || !strings.Contains(err.Error(), `table "no-such-table"`) {
				t.Errorf("%s = %v, want an error that names the table", call, err)
			}
		}
	})
	t.Run("the table removes expired items", func(t *testing.T) {
		// The emulator does not implement this setting.
		data, err := os.ReadFile(template)
		if err != nil || !strings.Contains(string(data), "TimeToLiveSpecification: {AttributeName: expires_at, Enabled: true}") {
			t.Errorf("%s has no time to live on expires_at (%v)", template, err)
		}
	})
}

// putItem stores an item of an earlier version, given in the JSON of DynamoDB.
func putItem(t *testing.T, db *dynamodb.Client, table, text string) {
	t.Helper()
	it := map[string]types.AttributeValue{}
	for name, v := range asItem(t, text) {
		switch v := v.(map[string]any); {
		case v["N"] != nil:
			it[name] = &types.AttributeValueMemberN{Value: v["N"].(string)}
		case v["B"] != nil:
			data, err := base64.StdEncoding.DecodeString(v["B"].(string))
			require.OK(t, err)
			it[name] = &types.AttributeValueMemberB{Value: data}
		default:
			it[name] = &types.AttributeValueMemberS{Value: v["S"].(string)}
		}
	}
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it})
	require.OK(t, err)
}

// checkUnnumbered changes and deletes items that may have no revision. If two writers read the same
// item, one of them succeeds. The previous version may write the item in between.
func checkUnnumbered(t *testing.T, db *dynamodb.Client, table string) {
	s := dynamo.New(db, table, &store.Options{Now: func() time.Time { return sampleNow }})
	for name, tt := range samples {
		putItem(t, db, table, tt.all())
		read, err := s.Docs(t.Context(), tt.doc.Key)
		require.OK(t, err)
		d := read[0]
		if err := s.PutDocs(t.Context(), tt.doc); !errors.Is(err, document.ErrConflict) {
			t.Errorf("%s: a first write = %v, want a conflict", name, err)
		}
		require.OK(t, s.PutDocs(t.Context(), d))
		if err := s.PutDocs(t.Context(), d); !errors.Is(err, document.ErrConflict) {
			t.Errorf("%s: a second write = %v, want a conflict", name, err)
		}
		next, err := s.Docs(t.Context(), tt.doc.Key)
		require.OK(t, err)
		d.Rev++
		if diff := cmp.Diff(d, next[0]); diff != "" {
			t.Errorf("%s: after a write (-want +got):\n%s", name, diff)
		}
		if tt.rev == 0 {
			putItem(t, db, table, tt.all())
			if err := s.PutDocs(t.Context(), d); !errors.Is(err, document.ErrConflict) {
				t.Errorf("%s: a write after the previous version = %v, want a conflict", name, err)
			}
			d.Rev--
		}
		require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: d.Key, Rev: d.Rev}))
	}
}

// checkFixed lets a function of the previous version free a slot and use it again, at the revision
// that was read. The notice of the other event must stay.
func checkFixed(t *testing.T, db *dynamodb.Client, table string) {
	s := dynamo.New(db, table, &store.Options{Now: func() time.Time { return sampleNow }})
	tt := samples["notice"]
	putItem(t, db, table, tt.all())
	read, err := s.Docs(t.Context(), tt.doc.Key)
	require.OK(t, err)
	other := strings.ReplaceAll(tt.all(), tt.doc.Mark, "other-event")
	putItem(t, db, table, other)
	for name, d := range map[string]document.Doc{
		"change": read[0], "delete": {Key: tt.doc.Key, Rev: read[0].Rev, Mark: read[0].Mark},
	} {
		if err := s.PutDocs(t.Context(), d); !errors.Is(err, document.ErrConflict) {
			t.Errorf("%s for another notice = %v, want a conflict", name, err)
		}
	}
	left, err := s.Docs(t.Context(), tt.doc.Key)
	require.OK(t, err)
	require.OK(t, s.PutDocs(t.Context(), left...))
	left[0].Data, left[0].Rev = nil, left[0].Rev+1
	require.OK(t, s.PutDocs(t.Context(), left...))
}

// checkEnded reads items that have expired, or whose arguments were dropped, and writes them again.
func checkEnded(t *testing.T, db *dynamodb.Client, table string) {
	now := sampleNow
	s := dynamo.New(db, table, &store.Options{Now: func() time.Time { return now }})
	dropped := sampleOf(`"expires_at":{"N":"1995348801"}`, 0, "ASK#k", "ARGS#R-2", "{}")
	for name, tt := range samples {
		if tt.doc.Keep.IsZero() {
			continue
		}
		end := sampleKeep
		if !tt.exact {
			end = wholeKeep
		}
		for _, tt := range []sample{tt, dropped} {
			putItem(t, db, table, tt.all())
			now = end
			got, err := s.Docs(t.Context(), tt.doc.Key)
			list, all, listErr := s.ListDocs(t.Context(), tt.doc.Part)
			err = errors.Join(err, listErr)
			if err != nil || got[0].Rev != 0 || got[0].Data != nil || !all || len(list) > 0 {
				t.Errorf("%s: Docs = %+v, ListDocs = %+v, all: %v, %v; want nothing", name, got, list, all, err)
			}
			if err := s.TouchDoc(t.Context(), tt.doc.Key, "m"); !errors.Is(err, document.ErrNotFound) {
				t.Errorf("%s: TouchDoc = %v, want ErrNotFound", name, err)
			}
			for _, rev := range []int64{1 << 62, max(tt.rev, 1)} {
				err := s.PutDocs(t.Context(), document.Doc{Key: tt.doc.Key, Data: []byte("{}"), Rev: rev})
				if !errors.Is(err, document.ErrConflict) {
					t.Errorf("%s: a write at revision %d = %v, want a conflict", name, rev, err)
				}
			}
			now = end.Add(-time.Nanosecond)
			if tt.doc.ID != "ARGS#R-2" {
				if got, err := s.Docs(t.Context(), tt.doc.Key); err != nil || got[0].Rev == 0 {
					t.Errorf("%s: Docs just before the expiry = %+v, %v", name, got, err)
				}
			}
			now = end
			require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: tt.doc.Key, Data: []byte("{}")}))
			err = s.PutDocs(t.Context(), document.Doc{Key: tt.doc.Key, Rev: 1})
			if !errors.Is(err, document.ErrConflict) { // the answer to the first attempt may be lost
				require.OK(t, err)
			}
		}
	}
}
