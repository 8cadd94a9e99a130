package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A crowd is a gateway with 250 waiting tools. It records each request to decide.
type crowd struct {
	*httptest.Server
	sent  []int // number of items in each request
	after func(n int, w http.ResponseWriter) bool
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		var rows []string
		from := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &from)
		to, next := min(from+200, 250), ""
		if to < 250 {
			next = fmt.Sprintf(`,"next":"%d"`, to)
		}
		for i := from; i < to; i++ {
			rows = append(rows, fmt.Sprintf(`{"id":"fs:t%d","kind":"tool","server":"fs","status":"pending_approval","state":"new","tier":"read","hash":"%064d","rev":1}`, i, i))
		}
		fmt.Fprintf(w, `{"tools":[%s],"total":250,"facets":{}%s}`, strings.Join(rows, ","), next)
		return
	}
	var in struct{ Items []admin.BulkItem }
	_ = json.NewDecoder(r.Body).Decode(&in)
	if c.after != nil && !c.after(len(c.sent), w) {
		return
	}
	c.sent = append(c.sent, len(in.Items))
	out := struct {
		Tools []admin.BulkResult `json:"tools"`
		Done  int                `json:"done"`
	}{Done: len(in.Items)}
	for _, item := range in.Items {
		out.Tools = append(out.Tools, admin.BulkResult{ID: item.ID, Result: "done", Status: "callable", Rev: item.Rev + 1})
	}
	_ = json.NewEncoder(w).Encode(out)
}

func TestBulkInterrupted(t *testing.T) {
	c := newCrowd(t)
	s := newTerminal(t, nil)
	list := t.TempDir() + "/seen.txt"
	s.names[list] = "seen.txt"
	require.OK(t, os.WriteFile(list, []byte(s.must(0, "tools", "--hashes", "--url", c.URL)), 0o600))
	s.text.Reset()
	approve := []string{"approve", "--seen", list, "--yes", "--url", c.URL}
	ctx, stop := context.WithCancel(t.Context())
	c.after = func(n int, _ http.ResponseWriter) bool {
		if n == 1 {
			stop() // the command still finishes the running request
		}
		return true
	}
	if _, code := s.runIn(ctx, approve...); code != 1 || fmt.Sprint(c.sent) != "[100 100]" {
		t.Errorf("interrupted: exit code %d, sent %v items; want 1 and [100 100]", code, c.sent)
	}
	c.sent, c.after = nil, func(n int, w http.ResponseWriter) bool {
		if n == 1 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"detail":"the store does not answer, and nothing was decided"}`)
		}
		return n != 1
	}
	s.must(1, approve...)
	c.sent, c.after = nil, func(n int, _ http.ResponseWriter) bool {
		if n == 2 {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	s.must(1, approve...)
	c.sent, c.after = nil, nil
	s.must(0, approve...)
	s.check("bulk-interrupted")
}

// A client that stops reading early causes no error, and the opened gateway continues.
func TestOpenedFolderWhoseReaderLeaves(t *testing.T) {
	dir := t.TempDir()
	server := upstreamtest.New(t, upstreamtest.Options{Tools: firstTools()})
	programtest.WriteConfig(t, dir, servers{"fs": server}.config(each(""), ""))
	p := start(t, dir)
	require.OK(t, p.stop())
	g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	defer g.close()
	for range 20 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Base+"/admin/tools", nil)
		require.OK(t, err)
		res, err := g.Transport.RoundTrip(req)
		require.OK(t, err)
		res.Body.Close()
	}
}

func TestDecisionOnAFullDisk(t *testing.T) {
	d := newItemGateway(t)
	env := quiet()
	env.stdout = fullDisk{}
	err := run(t.Context(), []string{"disable", "fs:read_file", "--dir", d.dir}, env)
	if err == nil || !strings.Contains(err.Error(), "the decision took effect, but the result cannot "+
		"be printed") {
		t.Errorf("%v", err)
	}
	if err := run(t.Context(), []string{"tools", "--dir", d.dir}, env); err == nil {
		t.Error("tools succeeds although its list cannot be printed")
	}
}
