package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

func TestHealth(t *testing.T) {
	const path = "/admin/health"
	t.Run("ok", func(t *testing.T) {
		h := newFixture(t)
		r := admintest.Into[decide.Health](h.Fixture, path, "")
		age := int64(0)
		want := decide.Health{
			Status: "ok", Reasons: []state.Reason{}, Version: "v1.2.3", CatalogAge: &age, Tools: 4,
			Outcomes: map[string]int{"available": 2}, State: r.State,
		}
		if diff := cmp.Diff(want, r); diff != "" || r.State.Config.Version != object.Version([]byte(admintest.Config)) {
			t.Errorf("config %s, (-want +got):\n%s", r.State.Config.Version, diff)
		}
	})
	t.Run("refused config", func(t *testing.T) {
		h := newFixture(t)
		h.Put(config.Key, `{"mcpServers":{"fs":{"oops":1}}}`)
		h.States.Refresh(t.Context())
		r := admintest.Into[decide.Health](h.Fixture, path, "")
		want := []state.Reason{{
			Code: "config_refused", Condition: "degraded",
			Message: "config/mcp_config.json has 2 faults and is not used. The last good version stays in use.",
			Action:  "Fix the file. It takes effect once it is stored.",
		}}
		since := r.Reasons[0].Since
		r.Reasons[0].Since = time.Time{}
		if diff := cmp.Diff(want, r.Reasons); diff != "" || r.Status != "degraded" || len(r.State.Config.Faults) != 2 {
			t.Errorf("%s, faults %+v (-want +got):\n%s", r.Status, r.State.Config.Faults, diff)
		}
		if again := admintest.Into[decide.Health](h.Fixture, path, "").Reasons[0].Since; since.IsZero() || !again.Equal(since) {
			t.Errorf("since %v, then since %v", since, again)
		}
	})
}

func TestHealthWithoutAState(t *testing.T) {
	const path = "/admin/health"
	t.Run("no readable file", func(t *testing.T) {
		h := newFixture(t)
		h.Objects.OnGet = onGet(errStore)
		h.Restart()
		h.Open()
		w := h.Send(path, "")
		if body := w.Body; w.Status != 200 || !strings.Contains(body, `"status":"failing"`) || strings.Contains(body, "arn:") {
			t.Errorf("%d %s", w.Status, body)
		}
	})
	t.Run("nobody in particular", func(t *testing.T) {
		h := newFixture(t)
		h.Console.Actor = nil
		h.Open()
		if w := h.Send(path, ""); w.Status != 401 || strings.Contains(w.Body, "reasons") {
			t.Errorf("%d %s", w.Status, w.Body)
		}
	})
}
