// Package replay sends the same requests to two builds of the gateway and lists every answer that
// differs. `make replay BEFORE=folder` compares this commit with the programs of an older commit.
package replay

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// TestReplay fails for each answer that differs. The older build prepares a folder. Then each build
// runs on its own copy of the folder, so this build also reads data of the older build. Without
// PORTCULLIS_REPLAY_BEFORE both builds are this commit's build, so a difference means that masks
// lacks a pattern for a value that changes from run to run.
func TestReplay(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("PORTCULLIS_REPLAY"))
	if err != nil {
		t.Skip("PORTCULLIS_REPLAY is not set: the number of requests; make replay sets it")
	}
	access, older := programtest.Tokens(), ""
	if folder := os.Getenv("PORTCULLIS_REPLAY_BEFORE"); folder != "" {
		older = filepath.Join(folder, "portcullis")
	}
	s := newSetup(t)
	dir, kept := s.prepare(t, access, older)
	var sides [2]*side
	for i, program := range []string{older, ""} {
		folder := filepath.Join(t.TempDir(), "gateway")
		require.OK(t, exec.CommandContext(t.Context(), "cp", "-a", dir, folder).Run())
		access.Program = program
		sides[i] = &side{programtest.StartWith(t, access, folder), maps.Clone(kept)}
	}
	requests, differ, statuses := s.run(t, s.parts[1:], n), 0, map[string]int{}
	for i, r := range requests {
		before, now := s.compare(t, sides, r)
		if r.reads() && before != now {
			time.Sleep(readersKeep)
			before, now = s.compare(t, sides, r)
		}
		if statuses[now[:3]]++; before != now {
			differ++
			t.Errorf("request %d: %v\n%s", i, r, difference(before, now))
		}
	}
	t.Logf("%d requests, answers by status %v, %d differ", len(requests), statuses, differ)
}

// prepare creates a folder with the older build. It returns the folder and the values of
// earlier answers that later requests use as $names.
func (s *setup) prepare(
	t *testing.T, a programtest.Access, older string,
) (dir string, kept map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "prepared")
	s.configure(t, dir, "search")
	a.Program = older
	p := &side{programtest.StartWith(t, a, dir), map[string]string{"bootstrap": a.Admin}}
	s.failCalls()
	s.fleet.Apply()
	s.fleet.ChangeItems()
	p.Sync()
	for _, r := range s.run(t, s.parts[:1], 0) {
		if answer := p.send(t, r); answer[:1] != "2" {
			t.Errorf("prepare: %v\n%s", r, answer)
		}
	}
	p.Stop()
	return dir, p.kept
}

// compare sends a request to both builds.
func (s *setup) compare(t *testing.T, sides [2]*side, r request) (before, now string) {
	t.Helper()
	if r.mode != "" {
		for _, side := range sides {
			s.configure(t, side.Dir, r.mode)
		}
	}
	return sides[0].send(t, r), sides[1].send(t, r)
}

// readersKeep is longer than a gateway caches lists after a decision.
const readersKeep = 2100 * time.Millisecond

// searches matches the names of the gateway's tools that only read.
var searches = compile(`"(retrieve_tools|describe_tools|upstream_servers)"`)

// reads reports whether the request changes nothing. If the answers to such a request differ, the
// test sends it again after the caches of the gateways have expired.
func (r request) reads() bool {
	if strings.HasPrefix(r.path, "/admin") {
		return r.verb == http.MethodGet
	}
	return !strings.Contains(r.body, "tools/call") || searches.MatchString(r.body)
}

// A side is one of the two running builds.
type side struct {
	*programtest.Program
	kept map[string]string // values of the script's names
}

// names matches the names that the script replaces with text of an earlier answer.
var names = compile(`\$[a-z]\w*`)

// send sends a request and returns the answer without the values that differ between two runs of
// one build.
func (s *side) send(t *testing.T, r request) string {
	t.Helper()
	fill := func(text string) string {
		return names.ReplaceAllStringFunc(text, func(name string) string {
			return cmp.Or(s.kept[name[1:]], "none")
		})
	}
	header := http.Header{}
	for name := range r.header {
		header.Set(name, fill(r.header.Get(name)))
	}
	a := s.Do(r.verb, fill(r.path), fill(r.body), header)
	var b strings.Builder
	fmt.Fprintln(&b, a.Status)
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if name != "Date" && name != "Content-Length" { // masks change the length
			fmt.Fprintln(&b, name+":", strings.Join(a.Header[name], " | "))
		}
	}
	text := b.String() + "\n" + a.Body
	for _, k := range r.keep {
		delete(s.kept, k[0])
		if found := regexp.MustCompile(k[1]).FindStringSubmatch(text); found != nil {
			s.kept[k[0]] = found[1]
		}
	}
	host := strings.TrimPrefix(s.URL, "http://")
	text = strings.NewReplacer(s.URL, "URL", host, "URL", s.Dir, "FOLDER").Replace(text)
	for _, m := range masks {
		text = m.ReplaceAllString(text, m.with)
	}
	return text
}

// masks contains patterns of values that differ between two runs of one build, and their
// replacements.
var masks = []struct {
	*regexp.Regexp
	with string
}{
	{compile(`R-[0-9A-Z]{8}\b|\bpct_[\w-]+|\b[0-9a-f]{20}\b|\bl[0-9a-f]{10}\b`), "ID"},
	{compile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?|\d{8}T\d{6}Z`), "TIME"},
	{compile(`\d+ [A-Z][a-z]+ \d{4}, \d\d:\d\d(:\d\d)? UTC`), "TIME"},
	{compile(`(<time[^>]*>)[^<]*`), "${1}TIME"},
	{compile(`\bjust now\b|\b(\d+ |an? )(s|seconds?|minutes?|hours?) ago\b`), "AGO"},
	{compile(`\b\d+(\.\d+)?( ?ms|µs|s)\b`), "DURATION"},
	{compile(`("(?:\w+_)?(?:ms|seconds)":)[\d.]+`), "${1}0"},
	{compile(`("(?:requests|connections)":)\d+`), "${1}0"}, // in flight
	// Hashes of values with times, and the lengths and ETags of answers with times.
	{compile(`("catalog":\{"version":"|"(?:prev|snapshot)":")\w+`), "${1}HASH"},
	{compile(`catalog<dd><code title="\w+">\w+|"result_bytes":\d+|"[0-9a-f]{16}"`), "HASH"},
	// Each build counts the use, and syncs after a change of the config, at its own time.
	{compile(`,?"use":\{[^}]*\}|"stored":(true|false)`), ""},
	{compile(`(<dt>Use<dd>)?(<span aria-hidden="true">[^<]*</span>)? ?\d+ calls?/7 d[^<\n]*`), ""},
	{compile(` <b class="count" id="asking">\d+</b>|\d+ tools that it can call`), ""},
	{compile(`((?:Mcp-Session-Id|Retry-After): )\S+`), "${1}MASKED"},
	{compile(`("(?:nextCursor|next)":"|[?&;](?:after|since|config)=)[^\s"&]+`), "${1}MASKED"},
}

var compile = regexp.MustCompile

// difference returns both answers, starting shortly before the first different byte.
func difference(before, now string) string {
	at := 0
	for at < min(len(before), len(now)) && before[at] == now[at] {
		at++
	}
	excerpt := func(s string) string { return s[max(0, at-120):min(len(s), at+240)] }
	return fmt.Sprintf("--- before\n%s\n--- now\n%s", excerpt(before), excerpt(now))
}
