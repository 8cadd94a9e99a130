// Package scale measures the gateway at 527, 10,000 and 100,000 tools: the built program on a
// laptop's folder, and the built functions on an emulator. It compares them with an older commit if
// there is one. `make bench-scale` writes the table into docs/scale.md.
package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// small is the only size in the lanes.
const small = 527

// rounds is how often each program is started and measured at each size. The programs alternate.
const rounds = 2

// sizes returns the numbers of tools in PORTCULLIS_SCALE ("527,10000,100000"). If it is not set,
// sizes skips the test, but returns the smallest size in the lanes.
func sizes(t *testing.T) (all []int) {
	t.Helper()
	setting := os.Getenv("PORTCULLIS_SCALE")
	if setting == "" && os.Getenv("PORTCULLIS_LANES") != "" {
		setting = strconv.Itoa(small)
	}
	if setting == "" {
		t.Skip("PORTCULLIS_SCALE is not set: the numbers of tools, such as 527,10000; make bench-scale sets it")
	}
	for _, text := range strings.Split(setting, ",") {
		n, err := strconv.Atoi(text)
		require.OK(t, err)
		all = append(all, n)
	}
	return all
}

// TestScale measures, prints the table, and fails if a figure is missing. It does not check most
// figures, because they depend on the machine: a reader must judge them. At 527 tools it also
// checks limits that a correct gateway meets on every machine.
func TestScale(t *testing.T) {
	sizes := sizes(t)
	local.Data(t, "livemcp/tools.json") // skips before anything is built
	endpoint := emulator.Start(t)
	now := &contender{name: "now", program: programtest.Build(t), functions: lambdatest.Build(t, repo.Path("."), "mcp", "sync"), figures: figures{}}
	all, before := []*contender{now}, figures(nil)
	if folder := os.Getenv("PORTCULLIS_SCALE_BEFORE"); folder != "" {
		before = figures{}
		all = []*contender{{name: "before", program: filepath.Join(folder, "portcullis"), functions: filepath.Join(folder, "functions"), figures: before}, now}
	}
	for _, n := range sizes {
		measure(t, endpoint, all, n)
	}
	text := table(before, now.figures, sizes)
	fmt.Println(text)
	if page := os.Getenv("PORTCULLIS_SCALE_PAGE"); page != "" {
		replace(t, page, text)
	}
	for _, r := range rows {
		for _, n := range sizes {
			v, ok := now.figures.get(r.key, n)
			if !ok && (r.key != "functionPeak" || n <= tableMost) {
				t.Errorf("%d tools: no figure for %s", n, r.label)
			}
			if most := limits[r.key]; ok && n == small && most > 0 && v > most {
				t.Errorf("%d tools: %s is "+r.format+", want at most %g on any machine", n, r.label, v, most)
			}
		}
	}
}

// The marks before and after the table in a page.
const opening, closing = "<!-- figures -->\n", "<!-- /figures -->\n"

// replace puts the table into a page.
func replace(t *testing.T, page, table string) {
	t.Helper()
	data, err := os.ReadFile(page)
	require.OK(t, err)
	before, rest, ok := strings.Cut(string(data), opening)
	_, after, closed := strings.Cut(rest, closing)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	require.OK(t, os.WriteFile(page, []byte(before+opening+"\n"+table+"\n"+closing+after), 0o644))
}

// limits are the largest permitted figures at 527 tools on any machine under any load.
var limits = map[string]float64{
	"raw": 3, "stored": 3, "cold": 2000, "p50": 50, "p95": 300, "busy": 1000, "initialize": 1000, "restart": 5000,
	"firstCPU": 10, "firstPeak": 300, "sameCPU": 3, "samePeak": 300, "feed": 1,
}

// measure measures all programs at one size, alternately.
func measure(t *testing.T, endpoint string, all []*contender, n int) {
	began := time.Now()
	crowd := upstreamtest.NewCrowd(t, local.Many(t, n))
	for _, c := range all {
		c.first(t, n, crowd.Config(""))
		t.Logf("%d tools, %s: first sync read, after %v", n, c.name, time.Since(began).Round(time.Second))
	}
	turns := rounds
	if n == small {
		turns = 1
	}
	for range turns {
		for _, c := range all {
			c.round(t, n)
			t.Logf("%d tools, %s: measured, after %v", n, c.name, time.Since(began).Round(time.Second))
		}
	}
	for _, c := range all {
		c.deploy(t, endpoint, n, crowd)
		t.Logf("%d tools, %s: deployed, after %v", n, c.name, time.Since(began).Round(time.Second))
	}
	for range turns * starts {
		for _, c := range all {
			c.coldStart(t, n)
		}
	}
	for _, c := range all {
		c.idleSearch(t, n)
	}
}
