package approvaltest

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withDocuments checks GetWith of a store that also keeps documents.
func withDocuments(t *testing.T, s approval.Store) {
	docs, ok := s.(document.Store)
	if !ok {
		t.Skip("the store has no documents")
	}
	id, res := tool.ID{Server: "fs", Name: "BASELINE"}, tool.ID{Server: "fs", Name: "file:///a b", Kind: tool.Resource}
	stops, grants := document.Key{Part: "STOP", ID: "STOP"}, document.Key{Part: "GRANT#a", ID: "GRANTED"}
	old := document.Key{Part: "SRV#fs", ID: "BASELINE"} // a tool named BASELINE is no baseline
	check := func(step string, id tool.ID, rev int64, revs ...int64) {
		t.Helper()
		r, got, err := s.GetWith(t.Context(), id, stops, grants, old)
		if missing := errors.Is(err, approval.ErrNotFound); missing != (rev == 0) || !missing && err != nil || r.Rev != rev || rev > 0 && r.ID() != id {
			t.Errorf("%s: the record %q is at rev %d, %v; want %d", step, r.ID(), r.Rev, err, rev)
		}
		want, err := docs.Docs(t.Context(), stops, grants, old)
		require.OK(t, err)
		same(t, step, got, want)
		for i, rev := range revs {
			if got[i].Rev != rev {
				t.Errorf("%s: document %q is at rev %d, want %d", step, got[i].Key, got[i].Rev, rev)
			}
		}
		if r, none, err := s.GetWith(t.Context(), id); r.Rev != rev || len(none) != 0 || errors.Is(err, approval.ErrNotFound) != (rev == 0) {
			t.Errorf("%s: without keys GetWith = rev %d, %v, %v", step, r.Rev, none, err)
		}
	}
	check("nothing is stored", id, 0, 0, 0, 0)
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: stops, Data: []byte(`{"list":[],"rev":1}`)}))
	check("one document", id, 0, 1, 0, 0)
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: grants, Data: []byte(`{"list":[],"rev":1}`)}))
	check("two documents", id, 0, 1, 1, 0)
	put(t, s, record(id), nil)
	put(t, s, record(res), nil)
	check("a tool", id, 1, 1, 1, 0)
	check("a resource", res, 1, 1, 1, 0)
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: stops, Data: []byte(`{"list":[],"rev":2}`), Rev: 1}))
	check("a document that changed", id, 1, 2, 1, 0)
	if n := len(records(t, s, "fs")); n != 2 {
		t.Errorf("the server has %d records, want 2", n)
	}
}
