// Package local helps tests to use the local machine: free ports, real data, and waiting for other
// processes.
package local

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// Missing skips a test that needs a missing program or file. If CI=true, the test fails instead,
// because untested code may not work.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Addr returns a loopback address at which nothing listened a moment ago. Its port is outside the
// range from which the system assigns ports. Other tests use assigned ports all the time, and one
// of them could get the port first.
func Addr(t testing.TB) string {
	t.Helper()
	const first, last = 10_000, 32_000
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first)))
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr); err == nil {
			require.OK(t, l.Close())
			return addr
		}
	}
	t.Fatalf("no port of 127.0.0.1 between %d and %d is free", first, last)
	return ""
}

// Quick runs a function up to five times. It fails the test if no run is shorter than most, the
// limit. Slow code is slow in every run, but other processes rarely delay every run.
func Quick(t testing.TB, what string, most time.Duration, run func()) {
	t.Helper()
	best := time.Duration(math.MaxInt64)
	for range 5 {
		began := time.Now()
		if run(); time.Since(began) < most {
			return
		}
		best = min(best, time.Since(began))
	}
	t.Errorf("%s takes %v, want at most %v", what, best, most)
}

// Patience is how long [Until] waits at most.
const Patience = 2 * time.Minute

// Until waits until done reports true, and ends the test after [Patience]. Use it to wait for
// another process or goroutine.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !WaitFor(done) {
		t.Fatalf("still not true after %v: %s", Patience, what)
	}
}

// WaitFor waits until done reports true, and reports whether that happened before [Patience] ended.
func WaitFor(done func() bool) bool {
	ticks, end := time.NewTicker(20*time.Millisecond), time.NewTimer(Patience)
	defer ticks.Stop()
	defer end.Stop()
	for !done() {
		select {
		case <-ticks.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// Data returns the path of a file below the folder that PORTCULLIS_DATA names. Without this
// variable, Data skips the test.
func Data(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv("PORTCULLIS_DATA")
	if folder == "" {
		t.Skip("PORTCULLIS_DATA is not set: the folder of real tool catalogs and query sets")
	}
	return filepath.Join(folder, filepath.FromSlash(name))
}

// Tools returns the definitions of 527 real tools by the names of their 70 servers.
func Tools(t testing.TB) map[string][]json.RawMessage {
	t.Helper()
	all, err := upstreamtest.ReadCatalog(Data(t, "livemcp/tools.json"))
	require.OK(t, err)
	out := map[string][]json.RawMessage{}
	for name, tools := range all {
		out[strings.ReplaceAll(name, " ", "-")] = tools // a server's name has no space
	}
	return out
}

// A Buffer stores text that one goroutine writes while another reads.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the written text.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Find returns the first match of the pattern's only group in the written text, or "".
func (b *Buffer) Find(pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(b.String())
	if m == nil {
		return ""
	}
	return m[1]
}

// Reset drops the written text.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}
