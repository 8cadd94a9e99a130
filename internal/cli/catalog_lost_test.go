package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// When a gateway ends, it writes the last decisions into the catalog, even if no sync is due.
func TestServeKeepsDecisionsAtItsEnd(t *testing.T) {
	e := newEvening(t)
	p := start(t, e.dir)
	p.Ask(http.StatusOK, "/admin/tools/shop/plain/disable", "{}", nil)
	require.OK(t, p.stop())
	snap, err := catalog.Load(t.Context(), dir.New(e.dir), nil)
	require.OK(t, err)
	i, ok := snap.Find(tool.ID{Server: "shop", Name: "plain"})
	if r := snap.Record(i); !ok || r == nil || !r.Disabled {
		t.Errorf("the catalog has %+v", r)
	}
	if strings.Contains(p.log.String(), "catalog not synced") {
		t.Errorf("the log says:\n%s", p.log)
	}
}

// If approvals.db is missing and the catalog is unusable, no tool is callable. The health names
// both problems until a person restores the records. A restore locks the tools that people locked
// according to the audit.
func TestApprovalsAndCatalogLost(t *testing.T) {
	e := newEvening(t)
	for _, how := range []string{"restore", "accept"} {
		root := e.copy()
		require.OK(t, os.Remove(filepath.Join(root, folder.ApprovalsFile)))
		require.OK(t, os.WriteFile(filepath.Join(root, "catalog", "current-2.json"), []byte("{"), 0o600))
		health := func() (codes []string) {
			e.open(root, func(ask ask, sync func()) {
				sync()
				var h struct{ Reasons []struct{ Code string } }
				require.OK(t, json.Unmarshal(ask(http.MethodGet, "/admin/health", ""), &h))
				for _, r := range h.Reasons {
					codes = append(codes, r.Code)
				}
			})
			return codes
		}
		for range 2 {
			if diff := cmp.Diff([]string{"approvals_restored", "approvals_gone"}, health()); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
			for name, state := range e.states(root) {
				if state != "waits for approval, lost" {
					t.Errorf("%s is %q", name, state)
				}
			}
		}
		want := map[string]string{}
		for _, name := range atEvening {
			want[name] = "waits for approval"
		}
		if how == "restore" {
			want["blocked"], want["off2"], want["stop"] = "blocked", "waits for approval, disabled", afterRestore()["stop"]
		}
		require.OK(t, run(t.Context(), []string{"approvals", how, "--dir", root, "--actor", "kim"}, &environment{getenv: os.Getenv, stdout: io.Discard, stderr: io.Discard}))
		if diff := cmp.Diff(want, e.states(root)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", how, diff)
		}
		if codes := health(); len(codes) > 0 {
			t.Errorf("after %s health says %v", how, codes)
		}
	}
}
