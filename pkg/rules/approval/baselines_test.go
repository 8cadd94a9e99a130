package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const place = "https://mcp.example.com/mcp"

var begun = time.Date(2026, 11, 20, 12, 0, 0, 535897932, time.UTC)

func wantBaseline(t *testing.T, b *approval.Baselines, want approval.Baseline) {
	t.Helper()
	got, err := b.Baseline(t.Context(), want.Identity, want.Kind)
	require.OK(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Baseline (-want +got):\n%s", d)
	}
}

func wantNoBaseline(t *testing.T, b *approval.Baselines, identity string) {
	t.Helper()
	if got, err := b.Baseline(t.Context(), identity, approval.Tools); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Baseline of %q = %+v, %v; want ErrNotFound", identity, got, err)
	}
}

// A baseline is stored by identity and kind, and replaces the earlier baseline with the same two.
func TestBaselines(t *testing.T) {
	b := approval.NewBaselines(new(documenttest.Store))
	wantNoBaseline(t, b, place)
	github := approval.Baseline{Identity: place, Kind: approval.Tools, Server: "github", URL: place + "?<a>&b", At: begun}
	others := []approval.Baseline{
		{Identity: "https://git.example.com/", Kind: approval.Tools, Server: "git", URL: "https://git.example.com", At: begun},
		{Identity: place, Kind: "prompts", Server: "github", At: begun.Add(time.Minute)},
		{Identity: place, Kind: approval.Tools, Server: "renamed", URL: place, At: begun.Add(time.Hour)},
	}
	for i := range 100 {
		others = append(others, approval.Baseline{Identity: fmt.Sprint(place, i), Kind: approval.Tools, Server: "many", At: begun})
	}
	for _, all := range [][]approval.Baseline{{github}, others, nil} {
		require.OK(t, b.PutBaselines(t.Context(), all))
		for _, want := range all {
			wantBaseline(t, b, want)
		}
	}
	wantBaseline(t, b, others[1])
}

func TestBaselinesRefused(t *testing.T) {
	b := approval.NewBaselines(new(documenttest.Store))
	for name, bad := range map[string]approval.Baseline{"no identity": {Kind: approval.Tools}, "no kind": {Identity: place}} {
		beside := approval.Baseline{Identity: "https://new.example.com", Kind: approval.Tools}
		if err := b.PutBaselines(t.Context(), []approval.Baseline{beside, bad}); err == nil {
			t.Errorf("a baseline with %s was stored", name)
		}
		wantNoBaseline(t, b, beside.Identity)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.PutBaselines(ctx, []approval.Baseline{{Identity: place, Kind: approval.Tools}}); !errors.Is(err, context.Canceled) {
		t.Errorf("PutBaselines = %v, want context.Canceled", err)
	}
	wantNoBaseline(t, b, place)
}

// OldBaselines returns, in the current form, the baselines that an earlier version stored by server
// name.
func TestOldBaselines(t *testing.T) {
	var docs documenttest.Store
	b := approval.NewBaselines(&docs)
	for server, old := range map[string]approval.Baseline{
		"github": {URL: place + "?x=1", Server: "github", At: begun},
		"query":  {Identity: place + "?x=2", Kind: "prompts", URL: place + "?x=2", Server: "query", At: begun},
		"no-url": {Server: "no-url", At: begun},
		"now":    {Identity: place, Kind: approval.Tools, URL: place, Server: "now", At: begun},
		"other":  {URL: "https://other.example.com", Server: "other"},
	} {
		data, err := json.Marshal(old)
		require.OK(t, err)
		require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: document.Key{Part: "SRV#" + server, ID: "BASELINE"}, Data: data}))
	}
	got, err := b.OldBaselines(t.Context(), []string{"github", "none", "query", "no-url", "now"})
	require.OK(t, err)
	want := []approval.Baseline{
		{Identity: place, Kind: approval.Tools, URL: place + "?x=1", Server: "github", At: begun},
		{Identity: place, Kind: "prompts", URL: place + "?x=2", Server: "query", At: begun},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("OldBaselines (-want +got):\n%s", d)
	}
	if got, err := b.OldBaselines(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("OldBaselines of no server = %+v, %v", got, err)
	}
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: document.Key{Part: "SRV#bad", ID: "BASELINE"}, Data: []byte("{")}))
	if got, err := b.OldBaselines(t.Context(), []string{"bad"}); err == nil {
		t.Errorf("OldBaselines of an invalid baseline = %+v", got)
	}
}
