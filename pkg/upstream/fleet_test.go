package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// troubled is a fleet of 70 servers: 5 hang, 5 reset, 5 answer 500 once, 5 deny, 5 refuse, and 45 are well.
func troubled(t *testing.T, f *farm) {
	t.Helper()
	for i := range 70 {
		s := f.add(t, upstreamtest.Options{Tools: tools(8), Era: []upstreamtest.Era{upstreamtest.Modern, upstreamtest.Legacy}[i%2], Sessions: i%4 == 1})
		trouble(s, i)
	}
}

// trouble gives the i-th server of such a fleet its fault, if it has one.
func trouble(s *upstreamtest.Server, i int) {
	switch i / 5 {
	case 0:
		s.Fail(upstreamtest.Hang())
	case 1:
		s.Fail(upstreamtest.Reset())
	case 2:
		s.FailTimes(1, upstreamtest.Status(500, "starting"))
	case 3:
		s.Fail(upstreamtest.Status(403, "RBAC: access denied"))
	case 4:
		s.Refuse()
	}
}

// wantTroubled checks one run over the troubled fleet.
func wantTroubled(t *testing.T, f *farm, outs []outcome.Outcome) {
	t.Helper()
	for i, o := range outs {
		want, attempts, n := outcome.Available, 1, 8
		switch i / 5 {
		case 0:
			want, attempts, n = outcome.Transient, 2, 0
		case 1:
			want, attempts, n = outcome.Transient, 3, 0
		case 2:
			attempts = 2
		case 3:
			want, n = outcome.Denied, 0
		case 4:
			want, n = outcome.Permanent, 0
		}
		if o.ServerID != f.targets[i].ID || o.Status != want || o.Attempts != attempts || len(o.Tools) != n {
			t.Errorf("%s = %s %s after %d attempts with %d tools, want %s after %d with %d", f.targets[i].ID, o.Status, o.Reason, o.Attempts, len(o.Tools), want, attempts, n)
		}
		if want == outcome.Denied && len(f.servers[i].Requests()) != 1 {
			t.Errorf("%s was asked %d times after it had denied", o.ServerID, len(f.servers[i].Requests())-1)
		}
	}
	if len(outs) != 70 {
		t.Errorf("%d outcomes, want 70", len(outs))
	}
}

// TestSeventyServersInTrouble runs on a fake clock, with the limits of a real run.
func TestSeventyServersInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{Jitter: func(limit time.Duration) time.Duration { return limit / 2 }})
		defer f.close()
		troubled(t, f)
		start := time.Now()
		var healthy time.Duration
		outs := f.client.LoadAll(t.Context(), f.targets, func(o outcome.Outcome) {
			if o.Status == outcome.Available {
				healthy = time.Since(start)
			}
		})
		took := time.Since(start)
		wantTroubled(t, f, outs)
		if took > 10500*time.Millisecond || healthy > 4*time.Second {
			t.Errorf("the run took %v, the last healthy server %v; want no more than one hanging server's 10 s and what the rest needs", took, healthy)
		}
		t.Logf("70 servers, 25 in trouble: all told after %v, the 50 available ones after %v (fake clock)", took, healthy)
	})
}

// TestColdAuthorizationService runs 70 servers behind one authorization service that is cold at
// first, bears eight checks of 75 to 150 ms at once, gives each 200 ms, and fails closed.
func TestColdAuthorizationService(t *testing.T) {
	run := func(t *testing.T, burst int, a *upstreamtest.Authz) (ids map[outcome.Status][]string, asked int) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{Concurrency: 70})
			f.client.limits.burst = burst
			defer f.close()
			for range 70 {
				f.add(t, upstreamtest.Options{Tools: tools(3), Era: upstreamtest.Modern, Front: a.Front})
			}
			ids, _ = byStatus(f.client.LoadAll(t.Context(), f.targets, nil))
			for _, s := range f.servers {
				asked += len(s.Requests())
			}
		})
		return ids, asked
	}
	t.Run("eight at first and retry: every server loads", func(t *testing.T) {
		a := &upstreamtest.Authz{Cold: 8}
		ids, _ := run(t, burst, a)
		checks, late := a.Counts()
		t.Logf("%d checks, %d of them not in time, %d servers transient", checks, late, len(ids[outcome.Transient]))
		if len(ids[outcome.Available]) != 70 {
			t.Errorf("outcomes %v, want all available", ids)
		}
		if late != 8 {
			t.Errorf("%d checks were late, want the 8 that found the service cold", late)
		}
	})
	t.Run("one that is warm and slower than the fleet grows", func(t *testing.T) {
		a := &upstreamtest.Authz{}
		ids, _ := run(t, burst, a)
		checks, late := a.Counts()
		t.Logf("%d checks, %d of them not in time, %d servers transient", checks, late, len(ids[outcome.Transient]))
		if len(ids[outcome.Available]) != 70 {
			t.Errorf("outcomes %v, want all available", ids)
		}
	})
	t.Run("without a bound it fails", func(t *testing.T) {
		a := &upstreamtest.Authz{Cold: 8}
		ids, _ := run(t, 70, a)
		checks, late := a.Counts()
		t.Logf("%d checks, %d of them not in time, %d servers transient", checks, late, len(ids[outcome.Transient]))
		if len(ids[outcome.Transient]) == 0 {
			t.Error("70 at once load as well as 8: the bound is for nothing")
		}
	})
	t.Run("a clean no is not tried again", func(t *testing.T) {
		ids, asked := run(t, burst, &upstreamtest.Authz{Deny: true, Parallel: 70})
		if len(ids[outcome.Denied]) != 70 || asked != 70 {
			t.Errorf("%d servers denied after %d requests, want 70 after 70", len(ids[outcome.Denied]), asked)
		}
	})
}

// TestRealCatalogLoads serves the tools of 70 real servers and loads them all, byte for byte.
func TestRealCatalogLoads(t *testing.T) {
	dir := os.Getenv("PORTCULLIS_DATA")
	if dir == "" {
		t.Skip("PORTCULLIS_DATA is not set: it names the folder with the real tools")
	}
	catalog, err := upstreamtest.ReadCatalog(filepath.Join(dir, "livemcp", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []Target
	want := 0
	for name, s := range upstreamtest.Fleet(t, catalog, upstreamtest.Options{PageSize: 5}) {
		targets = append(targets, Target{ID: name, URL: s.URL})
		want += len(catalog[name])
	}
	outs := quick(t, Options{}).LoadAll(t.Context(), targets, nil)
	got := 0
	for _, o := range outs {
		if o.Status != outcome.Available || len(o.Refused) != 0 {
			t.Errorf("%s = %s %s, refused %v", o.ServerID, o.Status, o.Reason, o.Refused)
		}
		for i, d := range o.Tools {
			if string(d.Raw) != string(catalog[o.ServerID][i]) {
				t.Errorf("%s: tool %d is not the bytes that were served", o.ServerID, i)
			}
		}
		got += len(o.Tools)
	}
	if len(outs) != 70 || got != want || got != 527 {
		t.Errorf("%d servers with %d tools, want 70 with 527", len(outs), got)
	}
}

func TestCatalogFilesOfEveryShapeAreServed(t *testing.T) {
	def := `{"name":"a","x":[9007199254740993, 1.0]}`
	for name, file := range map[string]string{
		"list": `[` + def + `]`, "object": ` {"tools":[` + def + `]}`,
		"by server": `{"tools":[{"server":"s","tool":"a","x":[9007199254740993, 1.0]}]}`,
	} {
		path := filepath.Join(t.TempDir(), "catalog.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := upstreamtest.ReadCatalog(path)
		server := map[bool]string{true: "s"}[name == "by server"]
		if err != nil || fmt.Sprintf("%s", got[server]) != "["+def+"]" {
			t.Errorf("%s: ReadCatalog = %s, %v", name, got, err)
		}
	}
	if _, err := upstreamtest.ReadCatalog("no such file"); err == nil {
		t.Error("a file that is not there is read")
	}
	if raw := upstreamtest.Tool("n", "d \"q\"", `{"readOnlyHint":true}`, "a", "b"); !json.Valid(raw) {
		t.Errorf("Tool = %s", raw)
	}
	if !slices.Equal(New(nil).info, json.RawMessage(`{"name":"portcullis","version":"0.0.0"}`)) {
		t.Errorf("info = %s", New(nil).info)
	}
}
