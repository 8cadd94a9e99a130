package functions_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestFunctions runs the built functions under a runtime API, with S3 and DynamoDB on an emulator.
// The subtests share the built functions and the emulator, because both are slow to start.
func TestFunctions(t *testing.T) {
	g := newSuite(t)
	t.Run("calls of AWS", g.callsOfAWS)
	t.Run("costs as in the docs", g.costsWhatThePageSays)
	for name, test := range map[string]func(*testing.T){
		"sync handles every event":           g.syncTakesEvents,
		"mcp answers every event":            g.mcpAnswersEvents,
		"people decide":                      g.peopleDecide,
		"people sign in":                     g.peopleSignIn,
		"people sign in at an issuer":        g.peopleSignInAtIssuer,
		"people stop":                        g.peopleStop,
		"agents ask":                         g.agentsAsk,
		"calls become rows of the audit":     g.logsCalls,
		"only admin links the sign-in":       g.linksNoSignIn,
		"agents have separate sessions":      g.agentsKeepApart,
		"starts no program":                  g.startsNoProgram,
		"an admin function syncs in process": g.adminSyncs,
		"a start needs settings":             g.startNeedsSettings,
		"stores fail before the start":       g.failBeforeStart,
		"stores fail during requests":        g.failDuringRequests,
		"strangers are refused":              g.refusesStrangers,
		"sessions are sealed":                g.sealsSessions,
		"the gateway signs in to servers":    g.signsInToServers,
		"keys of tokens are replaced":        g.replacesTokenKey,
		"requests are traced":                g.tracesRequests,
		"progress streams":                   g.streamsProgress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time the tests wait for processes
			test(t)
		})
	}
}

func (g suite) syncTakesEvents(t *testing.T) {
	w := g.fixture(t)
	f := w.Start(t, "sync")
	for _, c := range []struct{ event, trigger, result string }{
		{"schedule.json", "schedule", "ok"},
		{"s3-config.json", "config", "ok"},
		{"eventbridge-config.json", "config", "ok"},
		{"eventbridge-policy-deleted.json", "config", "ok"},
		{"eventbridge-catalog.json", "config", "skipped"},
	} {
		payload, err := os.ReadFile(filepath.Join(events, c.event))
		require.OK(t, err)
		a := f.Invoke(payload)
		w.wantQuiet(t, string(a.Payload))
		var got struct {
			Result, Trigger string
			Tools           int
		}
		if err := json.Unmarshal(a.Payload, &got); err != nil || a.Failed || got.Result != c.result || got.Trigger != c.trigger || (c.result == "ok") != (got.Tools == 5) {
			t.Errorf("%s: %s (%v)", c.event, a.Payload, err)
		}
	}
	first := f.Invoke(nil)
	checkGolden(t, "sync.json", map[string]any{"answer": masked(t, first.Payload), "lines": linesOf(t, first)})

	w.Configure(`{"mcpServers":{"github":{"url":"` + w.github.URL + `","oops":1}}}`)
	stale := f.Invoke([]byte(`{}`))
	if !strings.Contains(string(stale.Payload), `"config_stale":true`) || !strings.Contains(string(stale.Payload), "oops") {
		t.Errorf("the sync of a faulty config answers %s", stale.Payload)
	}
	w.Configure(strings.Replace(`{"mcpServers":{"gone":{"url":"URL","required":true}}}`, "URL", "http://127.0.0.1:1/mcp", 1))
	failed := f.Invoke([]byte(`{}`))
	if !failed.Failed || !strings.Contains(string(failed.Payload), "required server") {
		t.Errorf("the sync without a required server answers %s", failed.Payload)
	}
	w.wantQuiet(t, string(failed.Payload))
	g.wantEvent(t, f.Output(), `"action":"config_taken"`, `"subject":"file:config/mcp_config.json"`)
	g.wantEvent(t, f.Output(), `"action":"config_refused"`, `"note":"1 fault; an earlier version stays in use"`)
}

func (g suite) mcpAnswersEvents(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	f := w.Start(t, "mcp")
	for _, folder := range []string{"http", "rest"} {
		files, err := filepath.Glob(filepath.Join(events, folder, "*.json"))
		if err != nil || len(files) < 9 {
			t.Fatalf("%d events in %s, %v", len(files), folder, err)
		}
		for _, file := range files {
			payload, err := os.ReadFile(file)
			require.OK(t, err)
			a := f.Invoke(payload)
			w.wantQuiet(t, string(a.Payload))
			checkGolden(t, filepath.Join(folder, filepath.Base(file)), map[string]any{
				"answer": masked(t, a.Payload), "failed": a.Failed, "lines": linesOf(t, a),
			})
		}
	}
	health := f.Send("/healthz", "")
	if health.Status != 200 || health.Body != `{"status":"ok"}` {
		t.Errorf("/healthz = %+v, want only ok", health)
	}
	if strings.Contains(f.Output(), upstreamSecret) {
		t.Error("the log contains the secret")
	}
	if n := strings.Count(f.Output(), `"ColdStarts":1`); n != 1 {
		t.Errorf("the function counted %d cold starts, want 1", n)
	}
}

// linesOf returns the log lines and metrics of one event, without the values that differ between
// runs.
func linesOf(t *testing.T, a lambdatest.Answer) []map[string]any {
	t.Helper()
	lines := lambdatest.Lines(t, a.Output)
	for _, line := range lines {
		if line["level"] == nil || line["timestamp"] == nil {
			t.Errorf("line without the level or timestamp that Lambda filters by: %v", line)
		}
		switch id, ok := line[requestKey]; {
		case ok && id != a.RequestID, !ok && line["message"] != nil:
			t.Errorf("request id of %v is not %s", line, a.RequestID)
		case ok:
			line[requestKey] = "*"
		}
		for key := range line {
			if volatile[key] {
				line[key] = "*"
			}
		}
		if aws, ok := line["_aws"].(map[string]any); ok {
			aws["Timestamp"] = "*"
		}
	}
	slices.SortStableFunc(lines, func(a, b map[string]any) int { // servers are loaded in parallel
		return cmp.Compare(fmt.Sprint(a["server"]), fmt.Sprint(b["server"]))
	})
	return lines
}

const requestKey = "request_id"

// volatile contains the fields of lines and answers that differ between runs.
var volatile = map[string]bool{
	"timestamp": true, "time": true, "took_ms": true, "store_ms": true, "search_ms": true, "MemoryUsed": true, "ms": true, "Latency": true, "UpstreamDuration": true, "SyncDuration": true,
	"duration_ms": true, "config": true, "snapshot": true, "CatalogAge": true,
}

// masked returns an answer without the values that differ between runs.
func masked(t *testing.T, payload []byte) any {
	t.Helper()
	v := require.JSON[map[string]any](t, payload)
	for key := range v {
		if volatile[key] {
			v[key] = "*"
		}
	}
	return v
}

func checkGolden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	require.OK(t, err)
	got = regexp.MustCompile(`"[\w-]{100,}"`).ReplaceAll(got, []byte(`"SEALED"`))
	got = append(regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAll(got, []byte("127.0.0.1:PORT")), '\n')
	golden.Check(t, filepath.Join("testdata", name), string(got))
}
