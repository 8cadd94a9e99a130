package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func stopForm(what, name, reason string, more ...string) url.Values {
	f := url.Values{"what": {what}, what: {name}, "reason": {reason}}
	for _, m := range more {
		f.Set(m, "1")
	}
	return f
}

// stops returns the stops of people.
func (h *fixture) stops() []stop.Stop {
	h.T.Helper()
	held, err := stop.Read(h.T.Context(), h.Approvals)
	require.OK(h.T, err)
	return held.List
}

// events returns the lines of the audit about stops.
func (h *fixture) events() (lines []string) {
	h.T.Helper()
	for _, l := range h.Deeds.Lines() {
		lines = append(lines, strings.TrimSpace(l.Actor+" "+l.Action+" "+l.Subject+" "+l.Note))
	}
	return lines
}

// A person stops a server: the page asks for confirmation. Then the stop applies at once, every
// page shows it, and the person undoes it.
func TestStopPage(t *testing.T) {
	h := newFixture(t)
	says(t, h.small("/admin/stop"), "Nothing is stopped", "<option>fs</option>", "<option>old</option>", `name="reason"`)
	w := h.Submit("/admin/stop", stopForm("server", "fs", " key <leaked> "))
	says(t, w.Body, `Stop server &#34;fs&#34;?`, "1 tool that can be called now", "No call of it runs in this process now", "“key &lt;leaked&gt;”", "Stop it now")
	if w.Status != http.StatusOK || len(h.stops()) > 0 || h.Status("fs:read_file") != lock.None {
		t.Fatalf("%d: fs is stopped before the person confirmed", w.Status)
	}
	w = h.Submit("/admin/stop", stopForm("server", "fs", h.Field(w.Body, "reason"), "sure"))
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./stop?did=stopped" || h.Status("fs:read_file") != lock.ServerDisabled {
		t.Fatalf("%d to %q, %q", w.Status, w.Header.Get("Location"), h.Status("fs:read_file"))
	}
	says(t, h.small("/admin/stop?did=stopped"), "It is stopped. Every process refuses the next call", `server &#34;fs&#34;`, "key &lt;leaked&gt;", "<td data-th=\"By\">ann", "Undo<span")
	for _, path := range []string{"/admin", "/admin/tools", "/admin/servers", "/admin/config", "/admin/me", "/admin/tools/fs/read_file"} {
		says(t, h.Page(http.StatusOK, path), `class="banner"`, "Emergency stop.", `server &#34;fs&#34; stopped by ann: key &lt;leaked&gt;`, `admin/stop">See what is stopped</a>`)
	}
	w = h.Submit("/admin/stop", stopForm("server", "fs", "again", "sure"))
	says(t, h.Page(http.StatusOK, "/admin/stop"+strings.TrimPrefix(w.Header.Get("Location"), "./stop")), "It was stopped already", "key &lt;leaked&gt;")
	w = h.Submit("/admin/stop/undo", stopForm("server", "fs", ""))
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../stop?did=undone" || len(h.stops()) > 0 || h.Status("fs:read_file") != lock.None {
		t.Errorf("%d to %q, %v", w.Status, w.Header.Get("Location"), h.stops())
	}
	says(t, h.Page(http.StatusOK, "/admin/stop?did=undone"), "The stop is undone", "Nothing is stopped")
	lacks(t, h.Page(http.StatusOK, "/admin"), "Emergency stop.")
	if got := fmt.Sprint(h.events()); got != "[ann stop server:fs key <leaked> ann stop_undone server:fs]" {
		t.Errorf("the audit has %s", got)
	}
}

func TestStopPageOfEverythingAndAgents(t *testing.T) {
	h := withTokens(t)
	h.Decide.Agents = identity.Names{Tokens: h.Console.Tokens.Store}
	h.Open()
	h.Submit("/admin/tokens", url.Values{"name": {"ci"}, "servers": {"fs"}, "days": {"1"}})
	says(t, h.Page(http.StatusOK, "/admin/stop"), `<option value="token:ci">`)
	sure := h.Submit("/admin/stop", stopForm("agent", "token:ci", "why")).Body
	says(t, sure, "except initialize and ping", "Stop agent &#34;token:ci&#34;?")
	const unlisted = "No agent with this id has called, and no valid agent token has it."
	if strings.Contains(sure, unlisted) {
		t.Error("the page says that nobody knows the agent token:ci")
	}
	says(t, h.Submit("/admin/stop", stopForm("agent", "ci", "why")).Body, unlisted)
	says(t, h.Submit("/admin/stop", stopForm("all", "", "why")).Body, "Stop everything?", "1 tool that can be called")
	for _, f := range []url.Values{stopForm("agent", " token:ci\t", "one", "sure"), stopForm("all", "", "two", "sure"), stopForm("agent", "arn:aws:iam::1:user/x", "three", "sure"), stopForm("server", "mail", "four", "sure")} {
		if w := h.Submit("/admin/stop", f); w.Status != http.StatusSeeOther {
			t.Errorf("%v: %d", f, w.Status)
		}
	}
	page := h.small("/admin/stop")
	says(t, page, "agent &#34;token:ci&#34;", "everything", "Undo all 4 stops of people", "· 1 stop more")
	if w := h.Submit("/admin/stop/undo", url.Values{"x": {""}}); w.Status != http.StatusSeeOther || len(h.stops()) > 0 {
		t.Errorf("%d, %v", w.Status, h.stops())
	}
	w := h.Submit("/admin/stop/undo", url.Values{"x": {""}})
	says(t, h.Page(http.StatusOK, "/admin/stop"+strings.TrimPrefix(w.Header.Get("Location"), "../stop")), "There was no stop that can be undone here")
	if n := len(h.events()); n != 9 { // one of them is the new token
		t.Errorf("the audit has %q", h.events())
	}
}

func TestStopPageRefuses(t *testing.T) {
	h := newFixture(t)
	for _, tt := range []struct {
		form url.Values
		want string
	}{
		{stopForm("server", "fs", ""), "say why"},
		{stopForm("server", "nobody's", "why"), "mcp_config.json has no server &#34;nobody&#39;s&#34;"},
		{stopForm("server", "", "why"), "name one thing to stop"},
		{stopForm("agent", "*", "why"), "there are no patterns"},
	} {
		for _, sure := range []bool{false, true} {
			if sure {
				tt.form.Set("sure", "1")
			}
			w := h.Submit("/admin/stop", tt.form)
			says(t, w.Body, tt.want, "othing was stopped")
			if w.Status != http.StatusUnprocessableEntity || len(h.stops()) > 0 {
				t.Errorf("%v: %d, %v", tt.form, w.Status, h.stops())
			}
		}
	}
	w := h.Submit("/admin/stop", stopForm("agent", "*", `typed "this"`, "sure"))
	says(t, w.Body, `value="typed &#34;this&#34;"`, `value="agent" checked`)
	if w := h.Submit("/admin/stop/undo", stopForm("server", "fs", "")); w.Status != http.StatusNotFound {
		t.Errorf("undo of a server that is not stopped: %d", w.Status)
	}
	for i := range stop.MaxStops {
		require.OK(t, errOf(stop.NewStore(h.Approvals).Change(t.Context(), func(s stop.Stops) (stop.Stops, error) { return s.Add(stoptest.Agent(fmt.Sprint("a", i))) })))
	}
	w = h.Submit("/admin/stop", stopForm("server", "fs", "why", "sure"))
	says(t, w.Body, "64 servers and agents are stopped", "Nothing was stopped")
	if w := h.Submit("/admin/stop", stopForm("all", "", "why", "sure")); w.Status != http.StatusSeeOther || len(h.stops()) != stop.MaxStops+1 {
		t.Errorf("a stop of everything in addition: %d, %d stops", w.Status, len(h.stops()))
	}
	h.Page(http.StatusOK, "/admin/stop")
}

func errOf(_ stop.Stops, err error) error { return err }

func TestStopPageOfTheConfig(t *testing.T) {
	h := newFixture(t)
	h.Put(config.Key, strings.TrimSuffix(admintest.Config, "}")+`, "stop": {"servers": ["fs"], "reason": "moved"}}`)
	h.Clock.Wait(time.Minute)
	page := h.Page(http.StatusOK, "/admin/stop")
	says(t, page, "undone only in the file", "mcp_config.json", "moved", "stopped in mcp_config.json: moved")
	lacks(t, page, `action="../admin/stop/undo"`)
	w := h.Submit("/admin/stop/undo", stopForm("server", "fs", ""))
	says(t, w.Body, "remove the stop from the file", "nothing was undone")
	if w.Status != http.StatusConflict {
		t.Errorf("%d", w.Status)
	}
}

// An emergency stop succeeds even if the audit fails.
func TestStopIsNotRecorded(t *testing.T) {
	h := newFixture(t)
	h.Deeds.OnPut = func(audit.Line) error { return errDown }
	w := h.Submit("/admin/stop", stopForm("server", "fs", "why", "sure"))
	if w.Header.Get("Location") != "./stop?audit=lost&did=stopped" || h.Status("fs:read_file") != lock.ServerDisabled {
		t.Fatalf("%d to %q", w.Status, w.Header.Get("Location"))
	}
	says(t, h.Page(http.StatusOK, "/admin/stop?audit=lost&did=stopped"), "It is stopped", "could not be written to the audit")
	if !strings.Contains(h.Log.String(), "server:fs") || !strings.Contains(h.Log.String(), "action=stop") {
		t.Error("the log lacks the stop")
	}
	if got := admintest.Into[struct{ Changed, Recorded bool }](h.Fixture, "/admin/stop/undo", `{"server":"fs"}`); !got.Changed || got.Recorded {
		t.Errorf("the API says %+v", got)
	}
}

func TestStopStoreDown(t *testing.T) {
	h := newFixture(t)
	h.Approvals.OnDocs = documenttest.DocsOf("STOP", func() error { return errDown })
	says(t, h.Page(http.StatusOK, "/admin/stop"), "The gateway cannot read the stops now", "it refuses every call")
	w := h.Submit("/admin/stop", stopForm("server", "fs", "why", "sure"))
	says(t, w.Body, "this may or may not be done", "The key stop of mcp_config.json")
	if w.Status != http.StatusServiceUnavailable || strings.Contains(w.Body, "arn:") || !strings.Contains(h.Log.String(), "arn:aws:x") {
		t.Errorf("%d %s", w.Status, w.Body)
	}
	if len(h.events()) > 0 {
		t.Errorf("the audit says %q", h.events())
	}
}

func TestStopPageOfAViewer(t *testing.T) {
	h := withTokens(t)
	stoptest.Put(t, h.Approvals, stoptest.Server("fs"))
	h.Clock.Wait(2 * time.Second)
	h.be(identity.Rights{Role: identity.Viewer})
	page := h.Page(http.StatusOK, "/admin/stop")
	says(t, page, "an operator undoes it", "key leaked", "Only an operator can make and undo stops.")
	if strings.Contains(page, "<button>Undo") || strings.Contains(page, "token:ci") || strings.Contains(page, `name="what"`) {
		t.Error("a viewer has buttons that would be refused")
	}
}

func TestStopAPI(t *testing.T) {
	h := newFixture(t)
	type answer struct {
		Stops             []stop.Stop
		Changed, Recorded bool
		Unlisted          bool
	}
	got := admintest.Into[answer](h.Fixture, "/admin/stop", `{"all":true,"reason":"key leaked"}`)
	if len(got.Stops) != 1 || !got.Stops[0].All || got.Stops[0].By != "ann" || got.Stops[0].Reason != "key leaked" || got.Stops[0].At.IsZero() || !got.Changed || !got.Recorded {
		t.Errorf("stop = %+v", got)
	}
	if got := admintest.Into[answer](h.Fixture, "/admin/stop", `{"all":true,"reason":"another"}`); got.Changed || got.Stops[0].Reason != "key leaked" {
		t.Errorf("a second stop = %+v", got)
	}
	if got := admintest.Into[answer](h.Fixture, "/admin/stop", `{"agent":"token:ci","reason":"runs wild"}`); !got.Unlisted {
		t.Errorf("the stop of an agent without a token = %+v", got)
	}
	if list := admintest.Into[answer](h.Fixture, "/admin/stop", ""); len(list.Stops) != 2 || list.Stops[1].Agent != "token:ci" {
		t.Errorf("list = %+v", list)
	}
	h.Problem(http.StatusUnprocessableEntity, "/admin/stop", `{"server":"fs","reason":"x","for":"1h"}`)
	h.Problem(http.StatusNotFound, "/admin/stop/undo", `{"server":"fs"}`)
	h.Problem(http.StatusUnprocessableEntity, "/admin/stop/undo", `{}`)
	h.Problem(http.StatusUnprocessableEntity, "/admin/stop/undo", `{"every":true,"all":true}`)
	if got := admintest.Into[answer](h.Fixture, "/admin/stop/undo", `{"all":true}`); len(got.Stops) != 1 {
		t.Errorf("undo = %+v", got)
	}
	if got := admintest.Into[answer](h.Fixture, "/admin/stop/undo", `{"every":true}`); len(got.Stops) != 0 || !got.Changed {
		t.Errorf("undo every = %+v", got)
	}
}
