package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// unnoticed is the answer without its notice.
func unnoticed(f found) string {
	return strings.Replace(f.Raw, fmt.Sprintf(`,"notice":%q`, f.Notice), "", 1)
}

// start syncs with these settings for server a.
func (y *yard) start(settings string) {
	y.t.Helper()
	y.configure(map[string]string{"a": settings})
	y.sync()
}

// store puts an object, and lets the gateway see it.
func (y *yard) store(key, data string) {
	y.t.Helper()
	if _, err := y.objects.Put(y.t.Context(), key, []byte(data), ""); err != nil {
		y.t.Fatal(err)
	}
	y.wait(time.Minute)
}

// A search says of locked tools how many match, if nothing callable does, or how many
// match better than everything callable.
func TestNotice(t *testing.T) {
	y := zoo(t)
	settings := map[string]string{"denied": `"disabled_tools":["purge_*"]`, "waiting": `"approval":"manual"`, "off": `"enabled":false`}
	const one, three = "1 matching tool is locked: include_disabled: true shows why, and who can unlock it.",
		"3 matching tools are locked: include_disabled: true shows why, and who can unlock them."
	const better, two = "1 locked tool matches better than these: include_disabled: true shows it, why it is locked, and who can unlock it.",
		"2 locked tools match better than these: include_disabled: true shows them, why they are locked, and who can unlock them."
	for _, tt := range []struct{ query, best, zero string }{
		{"document", "", ""},
		{"read document", "", ""},
		{"shred document", better, ""},
		{"shred or fax a document", two, ""},
		{"shred", one, one},
		{"fax print convert", three, three},
		{"zebra", "", ""},
	} {
		for setting, want := range map[string]string{"": tt.best, `"gateway":{"notice":"best"}`: tt.best, `"gateway":{"notice":"zero"}`: tt.zero} {
			y.configure(settings, strings.Fields(setting)...)
			y.wait(time.Minute)
			y.counts.take()
			f := y.search(fmt.Sprintf(`{"query":%q}`, tt.query))
			if f.Notice != want {
				t.Errorf("%q, %q: notice %q, want %q", tt.query, setting, f.Notice, want)
			}
			if flagged := y.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, tt.query)); flagged.Notice != "" {
				t.Errorf("%q: notice %q with the flag", tt.query, flagged.Notice)
			}
			counted := []string{fmt.Sprintf("discovery disabled=false nudged=%v", want != ""), "discovery disabled=true nudged=false"}
			if diff := cmp.Diff(counted, y.counts.take()); diff != "" {
				t.Error(diff)
			}
		}
	}
	y.configure(settings)
	y.wait(time.Minute)
	checkAnswer(t, "retrieve_notice", y.search(`{"query":"shred"}`).Raw)
	checkAnswer(t, "retrieve_notice_better", y.search(`{"query":"shred document","limit":1}`).Raw)
}

// A locked tool that matches as well as the best callable one does not outrank it.
func TestNoticeOfEqualMatches(t *testing.T) {
	y := newYard(t)
	same := def("archive_mail", "Archive mail.", "")
	y.serves("a", same)
	y.serves("b", same)
	y.configure(map[string]string{"b": `"approval":"manual"`})
	y.sync()
	if f := y.search(`{"query":"archive mail"}`); f.Total != 1 || f.Notice != "" {
		t.Errorf("%s", f.Raw)
	}
}

// What is out of scope or not selected causes no notice, however well it matches, locked or not.
func TestNoticeOfWhatDoesNotExist(t *testing.T) {
	y := zoo(t)
	plain := newYard(t)
	plain.serves("docs", y.servers["docs"].tools...)
	plain.configure(nil)
	plain.sync()
	for name, narrow := range map[string]func(){
		"out of scope": func() { y.agent.Servers = []string{"docs"} },
		"not selected": func() { y.agent.Servers = []string{"*"}; y.path = "/x/docs" },
	} {
		narrow()
		for _, query := range []string{"shred document", "shred", "fax print convert", "purge all documents", "zebra"} {
			args := fmt.Sprintf(`{"query":%q}`, query)
			if got, want := y.call("retrieve_tools", args), plain.call("retrieve_tools", args); got.Raw != want.Raw {
				t.Errorf("%s: %q: %s\nwant %s", name, query, got.Raw, want.Raw)
			}
		}
	}
}

// Nothing found is never an empty success where something could not be searched.
func TestNoticeOfAnEmptyAnswer(t *testing.T) {
	down := outcome.Outcome{Status: outcome.Permanent, Reason: "refused"}
	act := def("act", "Act.", "")
	for _, tt := range []struct {
		name, want string
		make       func(y *yard)
	}{
		{"all that there is was searched", "", func(y *yard) { y.serves("a", act); y.start("") }},
		{"the one server never loaded", "Your one server is unavailable: upstream_servers says why.",
			func(y *yard) { y.serves("a").outcome = down; y.start("") }},
		{"no server loaded", "None of your 2 servers is available: upstream_servers says why.",
			func(y *yard) { y.serves("a").outcome = down; y.serves("b").outcome = down; y.start("") }},
		{"one of three is away", "1 of your 3 servers is unavailable and may have what you look for: upstream_servers says why.",
			func(y *yard) { y.serves("a", act); y.serves("b", act); y.serves("c").outcome = down; y.start("") }},
		{"two of three are away", "2 of your 3 servers are unavailable and may have what you look for: upstream_servers says why.",
			func(y *yard) {
				y.serves("a", act)
				y.serves("b").outcome = down
				y.serves("c").outcome = down
				y.start("")
			}},
		{"one is not asked yet", "1 of your 2 servers is unavailable and may have what you look for: upstream_servers says why.",
			func(y *yard) { y.serves("a", act); y.start(""); y.serves("b", act); y.configure(nil) }},
		{"those that are away are out of scope", "",
			func(y *yard) {
				y.serves("a", act)
				y.serves("b").outcome = down
				y.start("")
				y.agent.Servers = []string{"a"}
			}},
		{"no server is configured", "There is no server here that you may use: ask the gateway's operator.", func(y *yard) { y.start("") }},
		{"no server is in scope", "There is no server here that you may use: ask the gateway's operator.",
			func(y *yard) { y.serves("a", act); y.start(""); y.agent.Servers = []string{"b"} }},
		{"none is switched on", "No server that you may use is enabled: ask the gateway's operator.",
			func(y *yard) { y.serves("a"); y.start(`"enabled":false`) }},
		{"no tool is listed", "No server that you may use lists a tool.", func(y *yard) { y.serves("a"); y.start("") }},
		{"a locked tool matches, and a server is away",
			"1 matching tool is locked: include_disabled: true shows why, and who can unlock it. 1 of your 2 servers is unavailable and may have what you look for: upstream_servers says why.",
			func(y *yard) {
				y.serves("a", def("zebra", "A zebra.", ""))
				y.serves("b").outcome = down
				y.start(`"disabled_tools":["*"]`)
			}},
		{"a refused config", "The gateway uses an older configuration, because the newest cannot be used: its operator has to fix it.",
			func(y *yard) { y.serves("a", act); y.start(""); y.store(config.Key, "{") }},
		{"failing syncs", "The list of tools is from 2026-11-20 12:00 UTC: newer tools are not in it.",
			func(y *yard) {
				y.serves("a", act)
				y.start("")
				y.serves("b").outcome = down
				y.configure(map[string]string{"b": `"required":true`})
				if _, err := y.syncer.Sync(y.t.Context()); err == nil {
					y.t.Fatal("the sync worked")
				}
				y.wait(time.Minute)
				y.agent.Servers = []string{"a"}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			tt.make(y)
			if f := y.search(`{"query":"zebra"}`); f.Notice != tt.want || f.Total != 0 {
				t.Errorf("%s\nwant notice %q", f.Raw, tt.want)
			}
		})
	}
}
