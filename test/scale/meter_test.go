package scale

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A meter is a server in front of an emulator. It measures the reads of a function.
type meter struct {
	URL string

	mu    sync.Mutex
	open  int       // number of running GETs of objects
	since time.Time // start of the first running GET
	bill  bill
}

// A bill contains measured reads.
type bill struct {
	objects time.Duration // time in which at least one GET of an object was running
	feed    float64       // read units of the decisions, computed as DynamoDB does
}

// take returns the reads since the last call of take.
func (m *meter) take() bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.bill
	m.bill = bill{}
	return out
}

func newMeter(t testing.TB, endpoint string) *meter {
	t.Helper()
	target, err := url.Parse(endpoint)
	require.OK(t, err)
	m := &meter{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.Query":
			m.query(w, r, pass)
		case r.Header.Get("X-Amz-Target") == "" && r.Method == http.MethodGet:
			m.begin()
			defer m.end()
			pass.ServeHTTP(w, r)
		default:
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	m.URL = server.URL
	return m
}

func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open++; m.open == 1 {
		m.since = time.Now()
	}
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open--; m.open == 0 {
		m.bill.objects += time.Since(m.since)
	}
}

// query passes a Query on and counts its units: one for each 4 KB, half of that if it need not be
// consistent, and at least half a unit.
func (m *meter) query(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	var asked struct{ ConsistentRead bool }
	var got struct{ Items []json.RawMessage }
	size := 0
	if json.Unmarshal(body, &asked) == nil && json.Unmarshal(answer.Body.Bytes(), &got) == nil {
		for _, item := range got.Items {
			size += len(strings.TrimSpace(string(item)))
		}
	}
	units := max(1, math.Ceil(float64(size)/4096))
	if !asked.ConsistentRead {
		units /= 2
	}
	m.mu.Lock()
	m.bill.feed += units
	m.mu.Unlock()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
