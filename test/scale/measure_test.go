package scale

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// queries contains queries in the style of agents. None is the name of a tool.
var queries = []string{
	"what is the weather like tomorrow", "create an issue in a repository", "search papers about transformers",
	"send an email", "convert a pdf to markdown", "take a screenshot of a web page", "current stock price", "find a hotel",
}

// The numbers of requests, and limits of their time.
const (
	warmUp   = 40
	atRest   = 400
	whenBusy = 300
	busyMost = 20 * time.Second
	restMost = 20 * time.Second
	tries    = 4 // tries to find a moment between two syncs
)

// A contender is a measured program: the program of this commit, or an older one.
type contender struct {
	name      string
	program   string // cmd/portcullis
	functions string // folder of the built functions
	figures   figures

	// For the current size:
	dir   string // folder of the program
	stack *lambdatest.Stack
	meter *meter
}

// milliseconds returns a duration in the unit of the table.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// percentile returns the time within which the given share of calls was answered.
func percentile(took []time.Duration, share float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return milliseconds(took[min(len(took)-1, int(share*float64(len(took))))])
}

// timed calls ask repeatedly, until times calls or the duration most is reached. It returns how
// long each answer took, without the time to check the answer.
func timed(t testing.TB, times int, most time.Duration, ask func(i int) ([]byte, error), right func([]byte) error) (took []time.Duration) {
	t.Helper()
	for i, began := 0, time.Now(); i < times && time.Since(began) < most; i++ {
		from := time.Now()
		answer, err := ask(i)
		took = append(took, time.Since(from))
		require.OK(t, err)
		require.OK(t, right(answer))
	}
	return took
}

// first lets the program read a fleet for the first time.
func (c *contender) first(t testing.TB, n int, config string) {
	t.Helper()
	c.dir = t.TempDir()
	programtest.WriteConfig(t, c.dir, config)
	g := start(t, c.program, c.dir)
	g.waitForSync()
	c.figures.add("firstCPU", n, local.CPU(t, g.pid()).Seconds())
	c.figures.add("firstPeak", n, local.UsageOf(t, g.pid()).Peak)
	require.OK(t, g.search(0))
	g.stop()
	c.figures.add("raw", n, stored(t, c.dir))
}

// stored returns the size of the snapshot in a folder, in MB.
func stored(t testing.TB, dir string) float64 {
	t.Helper()
	total := int64(0)
	require.OK(t, filepath.WalkDir(filepath.Join(dir, "catalog"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".json" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	}))
	return float64(total) / 1e6
}

// round starts the program again with its stored data, and measures it.
func (c *contender) round(t testing.TB, n int) {
	t.Helper()
	g := start(t, c.program, c.dir)
	began := time.Now()
	for g.search(0) != nil {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: no answer within a minute; the program wrote:\n%.3000s", c.name, g.log.String())
		}
		time.Sleep(time.Millisecond)
	}
	c.figures.add("restart", n, milliseconds(time.Since(began)))
	g.waitForSync()
	c.unchanged(t, g, n)
	c.quiet(t, g, n)
	c.busy(t, g, n)
	g.stop()
}

// between calls do until exactly own syncs end during one call of do, but at most tries times.
func between(t testing.TB, g *gateway, own int, do func()) {
	t.Helper()
	for range tries {
		before := g.syncs()
		do()
		if g.syncs() == before+own {
			return
		}
	}
	t.Logf("no quiet moment within %d tries", tries)
}

// unchanged measures a sync without changes of the servers.
func (c *contender) unchanged(t testing.TB, g *gateway, n int) {
	t.Helper()
	var used, peak float64
	between(t, g, 1, func() {
		local.ForgetPeak(t, g.pid())
		before := local.CPU(t, g.pid())
		require.OK(t, g.sync())
		used, peak = (local.CPU(t, g.pid()) - before).Seconds(), local.UsageOf(t, g.pid()).Peak
	})
	c.figures.add("sameCPU", n, used)
	c.figures.add("samePeak", n, peak)
}

// tookPattern matches the duration of a search in the program's log.
var tookPattern = regexp.MustCompile(`name=retrieve_tools .*?\btook(_ms)?=(\S+)`)

// quiet measures searches of one client without other load.
func (c *contender) quiet(t testing.TB, g *gateway, n int) {
	t.Helper()
	var took, pings []time.Duration
	var log string
	between(t, g, 0, func() {
		timed(t, warmUp, restMost/4, g.ask, found)
		from := len(g.log.String())
		took = timed(t, atRest, restMost, g.ask, found)
		log = g.log.String()[from:]
		pings = timed(t, atRest, restMost, g.ping, pinged)
	})
	c.figures.add("p50", n, percentile(took, .5))
	c.figures.add("p95", n, percentile(took, .95))
	c.figures.add("ping", n, percentile(pings, .5))
	var inside []time.Duration
	for _, m := range tookPattern.FindAllStringSubmatch(log, -1) {
		if d, err := time.ParseDuration(m[2]); err == nil {
			inside = append(inside, d)
		} else if ms, err := strconv.ParseFloat(m[2], 64); err == nil {
			inside = append(inside, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	if len(inside) > 0 {
		c.figures.add("server", n, percentile(inside, .5))
	}
}

// busy measures searches and starts of sessions while syncs run one after the other.
func (c *contender) busy(t testing.TB, g *gateway, n int) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(ended)
		for {
			if err := g.sync(); err != nil {
				t.Errorf("%s: sync: %v", c.name, err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var begun []time.Duration
	all.Go(func() {
		for i := 0; ; i++ {
			from := time.Now()
			if err := g.initialize(i); err != nil {
				t.Errorf("%s: initialize: %v", c.name, err)
				return
			}
			begun = append(begun, time.Since(from))
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	took := timed(t, whenBusy, busyMost, g.ask, found)
	close(stop)
	all.Wait()
	c.figures.add("busy", n, percentile(took, .95))
	c.figures.add("initialize", n, percentile(begun, .95))
}
