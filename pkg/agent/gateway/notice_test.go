package gateway_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// nothingFound is the answer of a search that no tool matches.
const nothingFound = `{"tools":[],"total":0,"notice":"No tool matches. Try other words, fewer words, or English."}`

// unnoticed removes the notice from the end of an answer, which may have the form json or lines.
func unnoticed(answer string) string {
	return regexp.MustCompile(`,"notice":"[^"]*"|notice: .*\n$`).ReplaceAllString(answer, "")
}

// start syncs with the settings for server a.
func (gw *fixture) start(settings string) {
	gw.T.Helper()
	gw.load(map[string]string{"a": settings})
}

// store stores an object and makes the gateway read it.
func (gw *fixture) store(key, data string) {
	gw.T.Helper()
	gw.Put(key, data)
	gw.Clock.Wait(time.Minute)
}

// A search reports how many locked tools match if no callable tool does, or how many match better
// than every callable tool.
func TestNotice(t *testing.T) {
	gw := everyStatus(t)
	settings := map[string]string{"denied": `"disabled_tools":["purge_*"]`, "waiting": `"approval":"manual"`, "off": `"enabled":false`}
	const it = " Set include_disabled: true to see it and who can unlock it."
	const them = " Set include_disabled: true to see them and who can unlock them."
	const one = "No callable tool matches, but 1 locked tool does." + it
	const three = "No callable tool matches, but 3 locked tools do." + them
	const better = "1 locked tool matches better than these." + it
	const two = "2 locked tools match better than these." + them
	const none = "No tool matches. Try other words, fewer words, or English."
	for _, tt := range []struct{ query, best, zero string }{
		{"document", "", ""},
		{"read document", "", ""},
		{"shred document", better, ""},
		{"shred or fax a document", two, ""},
		{"shred", one, one},
		{"fax print convert", three, three},
		{"zebra", none, none},
	} {
		for setting, want := range map[string]string{"": tt.best, `"gateway":{"notice":"best"}`: tt.best, `"gateway":{"notice":"zero"}`: tt.zero} {
			gw.reconfigure(settings, strings.Fields(setting)...)
			counts := gw.counting()
			f := gw.search(fmt.Sprintf(`{"query":%q}`, tt.query))
			if f.Notice != want {
				t.Errorf("%q, %q: notice %q, want %q", tt.query, setting, f.Notice, want)
			}
			if nudged := want != "" && want != none; counts.IncludeDisabled || counts.Nudged != nudged {
				t.Errorf("%q, %q: nudged = %t, want %t; include_disabled must be false", tt.query, setting, counts.Nudged, nudged)
			}
			counts = gw.counting()
			flagged := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, tt.query))
			if flagged.Notice != "" && (want != none || flagged.Notice != none) {
				t.Errorf("%q with include_disabled: notice %q", tt.query, flagged.Notice)
			}
			if !counts.IncludeDisabled || counts.Nudged {
				t.Errorf("%q with include_disabled: the log has include_disabled %t, nudged %t; want true, false", tt.query, counts.IncludeDisabled, counts.Nudged)
			}
		}
	}
	gw.reconfigure(settings)
	checkAnswer(t, "retrieve_notice", gw.search(`{"query":"shred"}`).Raw)
	checkAnswer(t, "retrieve_notice_better", gw.search(`{"query":"shred document","limit":1}`).Raw)
}

// Tools that are out of scope or not selected cause no notice, however well they match, locked or
// not.
func TestNoticeOfWhatDoesNotExist(t *testing.T) {
	gw := everyStatus(t)
	plain := newFixture(t)
	plain.Serve("docs", gw.ByName["docs"].Tools...)
	plain.load(nil)
	for name, narrow := range map[string]func(){
		"out of scope": func() { gw.Agent.Servers = []string{"docs"} },
		"not selected": func() { gw.Agent.Servers = []string{"*"}; gw.Path = "/x/docs" },
	} {
		narrow()
		for _, query := range []string{"shred document", "shred", "fax print convert", "purge all documents", "zebra"} {
			args := fmt.Sprintf(`{"query":%q}`, query)
			if got, want := gw.Call("retrieve_tools", args), plain.Call("retrieve_tools", args); got.Raw != want.Raw {
				t.Errorf("%s: %q: %s\nwant %s", name, query, got.Raw, want.Raw)
			}
		}
	}
}

// An empty answer always has a notice. If the search was incomplete, the notice says why.
func TestNoticeOfAnEmptyAnswer(t *testing.T) {
	down := outcome.Outcome{Status: outcome.Permanent, Reason: "refused"}
	act := def("act", "Act.", "")
	const nothing = "No tool matches. Try other words, fewer words, or English."
	for _, tt := range []struct {
		name, want string
		make       func(gw *fixture)
	}{
		{"complete search", nothing, func(gw *fixture) { gw.Serve("a", act); gw.start("") }},
		{"the only server never loaded", "Your one server is unavailable: upstream_servers says why.",
			func(gw *fixture) { gw.Serve("a").Outcome = down; gw.start("") }},
		{"no server loaded", "None of your 2 servers is available: upstream_servers says why.",
			func(gw *fixture) { gw.Serve("a").Outcome = down; gw.Serve("b").Outcome = down; gw.start("") }},
		{"two of three are unavailable", nothing + " 2 of your 3 servers are unavailable and may have what you look for: upstream_servers says why.",
			func(gw *fixture) {
				gw.Serve("a", act)
				gw.Serve("b").Outcome = down
				gw.Serve("c").Outcome = down
				gw.start("")
			}},
		{"the unavailable servers are out of scope", nothing,
			func(gw *fixture) {
				gw.Serve("a", act)
				gw.Serve("b").Outcome = down
				gw.start("")
				gw.Agent.Servers = []string{"a"}
			}},
		{"no server is configured", "There is no server here that you may use: ask the gateway's operator.", func(gw *fixture) { gw.start("") }},
		{"no server is enabled", "No server that you may use is enabled: ask the gateway's operator.",
			func(gw *fixture) { gw.Serve("a"); gw.start(`"enabled":false`) }},
		{"no tool is listed", "No server that you may use lists a tool.", func(gw *fixture) { gw.Serve("a"); gw.start("") }},
		{"a locked tool matches, and a server is unavailable",
			"No callable tool matches, but 1 locked tool does. Set include_disabled: true to see it and who can unlock it. 1 of your 2 servers is unavailable and may have what you look for: upstream_servers says why.",
			func(gw *fixture) {
				gw.Serve("a", def("zebra", "A zebra.", ""))
				gw.Serve("b").Outcome = down
				gw.start(`"disabled_tools":["*"]`)
			}},
		{"a refused config", nothing + " The gateway uses an older configuration, because the newest cannot be used: its operator has to fix it.",
			func(gw *fixture) { gw.Serve("a", act); gw.start(""); gw.store(config.Key, "{") }},
		{"failing syncs", nothing + " The list of tools is from 2026-11-20 12:00 UTC: newer tools are not in it.",
			func(gw *fixture) {
				gw.Serve("a", act)
				gw.start("")
				gw.Serve("b").Outcome = down
				gw.Configure(map[string]string{"b": `"required":true`})
				if _, err := gw.Syncer.Sync(gw.T.Context()); err == nil {
					gw.T.Fatal("the sync worked")
				}
				gw.Clock.Wait(time.Minute)
				gw.Agent.Servers = []string{"a"}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gw := newFixture(t)
			tt.make(gw)
			if f := gw.search(`{"query":"zebra"}`); f.Notice != tt.want || f.Total != 0 {
				t.Errorf("%s\nwant notice %q", f.Raw, tt.want)
			}
		})
	}
}

// TestRemediationNamesRequest checks that exactly one remediation of an answer names request_access
// if agents may request access, and none otherwise.
func TestRemediationNamesRequest(t *testing.T) {
	for _, requests := range []bool{false, true} {
		u := unlock(t)
		servers := map[string]string{"s": `"approval":"manual"`, "out": ""}
		u.load(servers, fmt.Sprintf(`"gateway":{"requests":%t}`, requests))
		u.Decide("s:pay", "disable")
		u.States.Refresh(t.Context())
		f := u.search(`{"query":"push pay","limit":10,"include_disabled":true}`)
		want := 0
		if requests {
			want = 1
		}
		if got := strings.Count(f.Raw, "request_access"); len(f.Remediation) < 2 || got != want {
			t.Errorf("requests %t: request_access is named %d times, want %d: %s", requests, got, want, f.Raw)
		}
		for status, text := range f.Remediation {
			if !strings.Contains(text, ": https://") {
				t.Errorf("requests %t: the remediation of %s ends without its page: %s", requests, status, text)
			}
		}
	}
}
