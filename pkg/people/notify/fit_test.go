package notify_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
)

// Fit makes the id of an event about a request from the request and the verdict, so equal events
// get the same id. The path of the event is the request's page.
func TestFitOfARequest(t *testing.T) {
	asked := notify.Event{Kind: notify.RequestMade, Request: "R-7KQ2M4XD"}
	again := asked.Fit(asked.At)
	if again.Path != "/admin/requests/R-7KQ2M4XD" || again.ID == "" || again.ID != asked.Fit(asked.At).ID {
		t.Errorf("asked: %+v", again)
	}
	ids := map[string]bool{again.ID: true}
	for _, verdict := range []string{"allowed", "revoked"} {
		e := notify.Event{Kind: notify.Decided, Request: asked.Request, Verdict: verdict}.Fit(asked.At)
		if ids[e.ID] || e.Path != again.Path {
			t.Errorf("%s: %+v", verdict, e)
		}
		ids[e.ID] = true
	}
	if e := (notify.Event{ID: "mine", Request: "R-7KQ2M4XD", Path: "/admin/requests"}).Fit(asked.At); e.ID != "mine" || e.Path != "/admin/requests" {
		t.Errorf("with its own id and page: %+v", e)
	}
}
