package dynamo_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	requests "github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// coldStart is the default time limit for a first request to read people's decisions.
const coldStart = 10 * time.Second

// A bill is the cost of reads of a table.
type bill struct {
	Reads, Items, Bytes int
	Units               float64
}

// A meter computes the bill from the answers as DynamoDB does. It counts the bytes of the items in
// each answer, by names and values, in units of 4 KB. Reads that are not strongly consistent cost
// half.
type meter struct {
	mu  sync.Mutex
	sum bill
}

// take returns the bill since the last call of take.
func (m *meter) take() bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.sum
	m.sum = bill{}
	return b
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	out, err := http.DefaultTransport.RoundTrip(r)
	call := r.Header.Get("X-Amz-Target")
	if err != nil || !strings.HasSuffix(call, ".Query") && !strings.HasSuffix(call, "GetItem") {
		return out, err
	}
	answer, err := io.ReadAll(out.Body)
	if err != nil {
		return nil, err
	}
	out.Body = io.NopCloser(bytes.NewReader(answer))
	type keys struct {
		ConsistentRead bool
		Keys           []json.RawMessage
	}
	type item map[string]map[string]json.RawMessage
	var in struct {
		ConsistentRead bool
		RequestItems   map[string]keys
	}
	var page struct {
		Item      item // of GetItem
		Items     []item
		Responses map[string][]item // of BatchGetItem
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, err
	}
	if page.Item != nil {
		page.Items = append(page.Items, page.Item)
	}
	size, units := 0, 0
	for table, list := range page.Responses {
		units += len(in.RequestItems[table].Keys) - len(list)
		in.ConsistentRead = in.RequestItems[table].ConsistentRead
		for _, it := range list {
			units += (sizeOf(it) + 4095) / 4096
		}
		page.Items = append(page.Items, list...)
	}
	for _, it := range page.Items {
		size += sizeOf(it)
	}
	if page.Responses == nil {
		units = max(1, (size+4095)/4096)
	}
	cost := float64(units)
	if !in.ConsistentRead {
		cost /= 2
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum = bill{m.sum.Reads + 1, m.sum.Items + len(page.Items), m.sum.Bytes + size, m.sum.Units + cost}
	return out, nil
}

// sizeOf returns how many bytes an item has.
func sizeOf(it map[string]map[string]json.RawMessage) (size int) {
	for name, value := range it {
		size += len(name) + valueSize(value)
	}
	return size
}

// valueSize returns how many bytes of an item's size a value is.
func valueSize(v map[string]json.RawMessage) int {
	var s string
	for kind, raw := range v {
		if kind == "BOOL" {
			return 1
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return len(raw)
		}
		switch kind {
		case "B":
			return base64.StdEncoding.DecodedLen(len(s))
		case "N":
			return (len(s)+1)/2 + 1
		}
	}
	return len(s)
}

// A shop is a table on an emulator with the records of n tools on 20 servers after a first sync,
// and a catalog for them.
type shop struct {
	t       *testing.T
	n       int
	meter   *meter
	store   *dynamo.Store
	objects *objecttest.Mem
	records []approval.Record // as last written
	skip    time.Duration     // offset of the clock of the loader
	loader  *state.Loader
}

func newShop(t *testing.T, endpoint string, n int) *shop {
	t.Helper()
	name := fmt.Sprintf("units-%d-%d", n, time.Now().UnixNano())
	outputs := emulator.Deploy(t, endpoint, name, template, map[string]string{"DeletionProtection": "false", "TableName": name})
	s := &shop{t: t, n: n, meter: new(meter), objects: new(objecttest.Mem)}
	s.store = dynamo.New(client(endpoint, s.meter), outputs["TableName"], nil)
	var servers []string
	for i := range 20 {
		servers = append(servers, fmt.Sprintf(`"s%02d": {"url": "https://s%02d.example.com/mcp"}`, i, i))
	}
	if _, err := s.objects.Put(t.Context(), config.Key, []byte(`{"mcpServers": {`+strings.Join(servers, ",")+`}}`), ""); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Do something with a document. ", 50) // the whole tool has 1.6 KB, like real tools
	s.records = s.each(func(i int) (approval.Record, error) {
		id := tool.ID{Server: fmt.Sprintf("s%02d", i%20), Name: fmt.Sprintf("tool_%05d", i)}
		d, err := tool.ParseItem(tool.Tool, fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, id.Name, text))
		if err != nil {
			return approval.Record{}, err
		}
		r, _, _ := approval.Observe(nil, approval.Observation{
			ID: id, URL: "https://" + id.Server + ".example.com/mcp", Definition: d.Raw, Hash: d.Hash, Mode: approval.OnChange, Baseline: true, Now: time.Now(),
		})
		return r, nil
	})
	s.publish()
	s.restart()
	return s
}

// each writes a record for each tool, several at the same time, and returns the records.
func (s *shop) each(of func(i int) (approval.Record, error)) []approval.Record {
	s.t.Helper()
	records := make([]approval.Record, s.n)
	g, ctx := errgroup.WithContext(s.t.Context())
	g.SetLimit(16)
	for i := range records {
		g.Go(func() error {
			r, err := of(i)
			if err == nil {
				records[i], err = s.store.Put(ctx, r, nil)
			}
			return err
		})
	}
	require.OK(s.t, g.Wait())
	return records
}

// publish stores a catalog of the present records.
func (s *shop) publish() {
	s.t.Helper()
	began := time.Now().UTC()
	servers := map[string]*catalog.ServerInput{}
	for _, r := range s.records {
		if servers[r.Server] == nil {
			servers[r.Server] = &catalog.ServerInput{Name: r.Server, Enabled: true}
		}
		d, err := tool.ParseItem(tool.Tool, r.Current)
		require.OK(s.t, err)
		in := servers[r.Server]
		in.Tools = append(in.Tools, catalog.ToolInput{Definition: d, Record: &r})
	}
	var in catalog.Input
	for _, server := range servers {
		in.Servers = append(in.Servers, *server)
	}
	snap, err := catalog.Build(in)
	if err == nil {
		_, err = catalog.Save(s.t.Context(), s.objects, snap, catalog.Current{StartedAt: began, SyncedAt: began}, "")
	}
	require.OK(s.t, err)
}

// restart begins with an empty cache. A request has 10 s, because the emulator, unlike DynamoDB,
// reads each item of the index for each page.
func (s *shop) restart() {
	s.loader = state.New(s.objects, withStops{s.store}, &state.Options{Now: func() time.Time { return time.Now().Add(s.skip) }, Timeout: coldStart})
}

// withStops reads the stops as the gateway does.
type withStops struct{ *dynamo.Store }

func (s withStops) Stops(ctx context.Context) (stop.Stops, error) {
	docs, err := s.Docs(ctx, stopKey)
	if err != nil || docs[0].Rev == 0 {
		return stop.Stops{}, err
	}
	return stop.Decode(docs[0].Data)
}

// search makes the reads of the first search after the given time, and returns their cost.
func (s *shop) search(after time.Duration) (*state.State, bill) {
	s.t.Helper()
	s.skip += after
	s.meter.take()
	st := s.loader.Load(s.t.Context())
	if h := st.Health; h.Approvals.Err != nil || h.Expired {
		s.t.Errorf("the approvals were not read: %+v", h.Approvals)
	}
	return st, s.meter.take()
}

// locked returns how many disabled tools a search shows.
func (s *shop) locked(st *state.State) int {
	v := st.View(identity.Agent{ID: "a", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}})
	n := 0
	for i := range v.Tools().All() {
		switch status := v.Status(i); status {
		case lock.DisabledByUser:
			n++
		case lock.None:
		default:
			s.t.Fatalf("%s is %s", v.ID(i), status)
		}
	}
	return n
}

// idle checks that a search without a new decision reads almost nothing.
func (s *shop) idle(name string) {
	s.t.Helper()
	_, cost := s.search(3 * time.Second)
	if cost.Reads != 2 || cost.Items != 0 || cost.Units > 2 {
		s.t.Errorf("%s: an idle search reads %+v, want two reads (decisions and stops), no items, and at most 2 units", name, cost)
	}
	s.t.Logf("%s: an idle search reads %+v", name, cost)
	_, cost = s.search(31 * time.Second)
	if cost.Reads != 3 || cost.Items != 1 || cost.Units > 2 {
		s.t.Errorf("%s: a search that also checks the config reads %+v, want three reads, one item (the record that checks the table), and at most 2 units", name, cost)
	}
	s.t.Logf("%s: a search that also checks the config reads %+v", name, cost)
	_, _, err := s.store.GetWith(s.t.Context(), s.records[1].ID(), stopKey)
	if cost = s.meter.take(); err != nil || cost != (bill{1, 1, cost.Bytes, 2}) {
		s.t.Errorf("%s: a call reads %+v, %v; want the record and the stops in one read, for 2 units", name, cost, err)
	}
	s.t.Logf("%s: a call reads %+v", name, cost)
}

func (s *shop) disable(r approval.Record, at time.Time) (approval.Record, error) {
	next, _, err := approval.Disable(r, approval.Author{Actor: "ada"}, at)
	return next, err
}

// TestReadUnits counts the reads of a table with many tools. An idle search comes more than two
// seconds after the last search, with no decision in between.
func TestReadUnits(t *testing.T) {
	endpoint := emulator.Start(t)
	for _, n := range []int{527, 1_500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newShop(t, endpoint, n)
			st, cost := s.search(0)
			if s.locked(st) != 0 || cost.Items != 1 || cost.Units > 2 {
				t.Errorf("after a first sync a cold start reads %+v and finds %d tools disabled", cost, s.locked(st))
			}
			s.idle("after a first sync")

			cost = s.bySync()
			t.Logf("a sync reads the records in %+v", cost)
			if cost.Items != n {
				t.Errorf("a sync reads %d records, want %d", cost.Items, n)
			}

			s.skip = 0 // the search must follow the decision immediately
			s.restart()
			s.search(0)
			r, err := s.disable(s.records[0], time.Now())
			if err == nil {
				s.records[0], err = s.store.Put(t.Context(), r, nil)
			}
			require.OK(t, err)
			st, cost = s.search(3 * time.Second)
			if s.locked(st) != 1 || cost.Items != 1 || cost.Units > 2 {
				t.Errorf("a decision is read in %+v, and %d tools are disabled, want 1", cost, s.locked(st))
			}
			t.Logf("a decision is read in %+v", cost)
			s.search(12 * time.Second)
			s.idle("after a decision")
			if n == 1_500 {
				s.burst()
			}
		})
	}
}

// bySync reads the records as a sync does.
func (s *shop) bySync() bill {
	s.t.Helper()
	s.meter.take()
	for i := range 20 {
		if _, err := s.store.Records(s.t.Context(), fmt.Sprintf("s%02d", i)); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.meter.take()
}

// burst decides about every tool at the same time. It checks that the next search knows all
// decisions, and that later searches do not read them again. The log shows how long the search
// takes on this machine.
func (s *shop) burst() {
	s.t.Helper()
	moment := time.Now()
	s.each(func(i int) (approval.Record, error) { return s.disable(s.records[i], moment) })
	s.skip = -time.Since(moment) // the searches follow it immediately
	for _, start := range []string{"cold", "warm"} {
		if start == "cold" {
			s.restart()
		}
		began := time.Now()
		st, cost := s.search(2 * time.Second)
		if locked := s.locked(st); locked != s.n {
			s.t.Errorf("a %s search in a burst finds %d tools disabled, want all", start, locked)
		}
		s.t.Logf("a %s search in a burst reads %+v in %v", start, cost, time.Since(began).Round(time.Millisecond))
	}
	s.search(31 * time.Second) // also reads the config, so that the next search does not
	s.idle("after a burst")
}

// The reads of a call grow with the grants of its agent, by a unit for each 4 KB. The record has a
// usual size.
func TestReadUnitsOfGrants(t *testing.T) {
	endpoint, m := emulator.Start(t), new(meter)
	s := dynamo.New(client(endpoint, m), tables(endpoint, "grants")(t), nil)
	id, now := tool.ID{Server: "git", Name: "push"}, time.Now()
	if _, err := s.Put(t.Context(), approval.Record{Server: id.Server, Tool: id.Name, State: approval.Pending, Current: make([]byte, 1600)}, nil); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		grants, calls, others int // valid grants, confirmed calls, expired grants
		asker                 bool
		want                  float64
	}{
		"requests are off":               {want: 2},
		"nothing was granted":            {asker: true, want: 3},
		"five grants":                    {grants: 5, asker: true, want: 3},
		"ten confirmed calls":            {calls: 10, asker: true, want: 4},
		"a month of grants and declines": {grants: 10, others: 20, asker: true, want: 5},
		"the maximum":                    {grants: 32, calls: 64, others: 48, asker: true, want: 16},
	} {
		agent := requesttest.Agent(name)
		g := requests.Granted{Agent: agent}
		for i := range tt.grants + tt.calls + tt.others {
			r, v := requesttest.To("git", fmt.Sprint("push_", i)), requests.Allowed
			switch {
			case i >= tt.grants+tt.calls:
				v = requests.Declined
			case i >= tt.grants:
				r, v = requesttest.OneCall("git", "push", "{}"), requests.Confirmed
			}
			r.ID = requests.NewID()
			d := requests.Decide(r, v, 480, "kim@example.com", "use staging for now", now)
			d.Against, d.URL = now.UTC(), "https://mcp.example.com/mcp"
			var err error
			if g, err = g.Add(d, false, now); err != nil {
				t.Fatal(err)
			}
		}
		keys := []document.Key{stopKey}
		if tt.asker {
			keys = append(keys, document.Key{Part: "GRANT#" + agent.Key(), ID: "GRANTED"})
		}
		_, granted, err := g.Encode()
		require.OK(t, err)
		if len(g.List) > 0 {
			require.OK(t, s.PutDocs(t.Context(), document.Doc{Key: keys[1], Data: granted}))
		}
		m.take()
		_, got, err := s.GetWith(t.Context(), id, keys...)
		if cost := m.take(); err != nil || (got[len(got)-1].Rev == 1) != (len(g.List) > 0) || cost.Reads != 1 || cost.Units != tt.want {
			t.Errorf("%s: a call reads %d documents in %+v, %v; want %v units in one read", name, len(got), cost, err, tt.want)
		} else {
			t.Logf("%s: a call reads %+v", name, cost)
		}
	}
}
