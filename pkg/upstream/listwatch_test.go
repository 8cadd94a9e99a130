package upstream

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A streams counts the notification streams of servers, and lets a test send on them.
type streams struct {
	open, begun atomic.Int32
	send        chan string // a message for one of the open streams
}

// serve is a stream that lives as long as its client reads it.
func (s *streams) serve(ctx context.Context, send func(string)) {
	s.begun.Add(1)
	s.open.Add(1)
	defer s.open.Add(-1)
	for {
		select {
		case m := <-s.send:
			send(m)
		case <-ctx.Done():
			return
		}
	}
}

// is checks how many streams are open, and how many were opened.
func (s *streams) is(t *testing.T, open, begun int32) {
	t.Helper()
	synctest.Wait()
	if s.open.Load() != open || s.begun.Load() != begun {
		t.Errorf(
			"%d streams are open, want %d; %d were opened, want %d",
			s.open.Load(),
			open,
			s.begun.Load(),
			begun,
		)
	}
}

// changes counts the reports of a ListWatch, by server.
type changes struct {
	mu sync.Mutex
	of map[string]int
}

func (c *changes) note(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[server]++
}

// is checks the number of reports about server0.
func (c *changes) is(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of["server0"] != want || want == 0 && len(c.of) > 0 {
		t.Errorf("%v changes were reported, want %d of server0", c.of, want)
	}
}

// watching returns a fixture that watches n servers with the same options. Before the watch begins,
// the first server gets the faults.
func watching(
	t *testing.T,
	n int,
	o upstreamtest.Options,
	faults ...upstreamtest.Fault,
) (*fixture, *ListWatch, *changes) {
	t.Helper()
	f := newFixture(t, Options{Jitter: noJitter}, slices.Repeat([]upstreamtest.Options{o}, n)...)
	for _, out := range f.LoadAll(t.Context(), f.targets, nil) {
		if out.Status != outcome.Available {
			t.Fatalf("Load = %+v", out)
		}
	}
	for _, fault := range faults {
		f.servers[0].Fail(fault)
	}
	var c changes
	w := f.WatchLists(c.note)
	t.Cleanup(w.Close)
	w.Set(f.targets)
	return f, w, &c
}

func TestListWatch(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{
		"stateless":         {Protocols: upstreamtest.Modern},
		"handshake":         {Protocols: upstreamtest.Legacy},
		"handshake session": {Protocols: upstreamtest.Legacy, Sessions: true},
	} {
		onFakeClock(t, name, func(t *testing.T) {
			s := streams{send: make(chan string)}
			o.Stream = s.serve
			f, w, c := watching(t, 1, o)
			s.is(t, 1, 1)
			for _, m := range []string{
				upstreamtest.ToolsChanged, "keep-alive", "[1]", "{}",
				notification("message", `{"data":"x"}`),
				notification("prompts/list_changed", `{}`),
				notification("resources/list_changed", `null`),
			} {
				s.send <- m
			}
			c.is(t, 3)
			w.Set(f.targets)
			s.is(t, 1, 1)
			f.EndSessions(t.Context()) // the server ends its stream, or not
			w.Set(nil)
			s.is(t, 0, 1)
			w.note("server0")
			c.is(t, 3) // it is no longer watched
		})
	}
}

// A stream ends when its server is no longer watched or has another target, and with the watch.
func TestListWatchEnds(t *testing.T) {
	for name, end := range map[string]func(f *fixture, w *ListWatch){
		"removed":     func(f *fixture, w *ListWatch) { w.Set(f.targets[1:]) },
		"another URL": func(f *fixture, w *ListWatch) { f.targets[0].URL += "2"; w.Set(f.targets) },
		"closed":      func(_ *fixture, w *ListWatch) { w.Close() },
		"no longer declared": func(f *fixture, w *ListWatch) {
			f.server(f.targets[0]).reports = reports{}
			w.Set(f.targets)
		},
	} {
		onFakeClock(t, name, func(t *testing.T) {
			s := streams{}
			f, w, _ := watching(t, 1, upstreamtest.Options{Stream: s.serve})
			s.is(t, 1, 1)
			end(f, w)
			s.is(t, 0, 1)
			time.Sleep(time.Minute)
			s.is(t, 0, 1)
		})
	}
	onFakeClock(t, "another credential", func(t *testing.T) {
		s := streams{}
		f, w, _ := watching(t, 1, upstreamtest.Options{Stream: s.serve})
		s.is(t, 1, 1)
		f.targets[0].Headers = map[string]string{"Authorization": "Bearer new"}
		w.Set(f.targets)
		s.is(t, 1, 2)
		requests := f.servers[0].Requests()
		if got := requests[len(requests)-1].Header.Get("Authorization"); got != "Bearer new" {
			t.Errorf("the stream has the credential %q", got)
		}
	})
}

// At most 64 streams are open. Servers with a call in the last hour come first.
func TestListWatchLimit(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		s := streams{}
		f, w, _ := watching(
			t,
			maxListStreams+3,
			upstreamtest.Options{Stream: s.serve, Tools: tools(1)},
		)
		s.is(t, maxListStreams, maxListStreams)
		last := maxListStreams + 2
		for range 2 { // the second time, the server has its stream
			if _, err := f.Call(t.Context(), f.targets[last], Call{Name: "tool_aa"}); err != nil {
				t.Fatal(err)
			}
			w.Set(f.targets)
			s.is(t, maxListStreams, maxListStreams+1)
		}
		if w.streams[f.targets[last].ID] == nil {
			t.Error("the server with a call has no stream")
		}
		f.server(f.targets[last]).noteUse(time.Now().Add(-recentUse)) // a swap has no advantage
		w.Set(f.targets)
		s.is(t, maxListStreams, maxListStreams+1)
	})
}

// A server whose stream ends at once does not take the place of another server.
func TestListWatchLimitOfBroken(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		var s streams
		o := upstreamtest.Options{Stream: s.serve}
		f, w, _ := watching(t, maxListStreams+1, o, upstreamtest.EOF())
		s.is(t, maxListStreams-1, maxListStreams-1)
		for range 3 {
			w.Set(f.targets)
			s.is(t, maxListStreams, maxListStreams)
			time.Sleep(time.Minute)
		}
	})
}

// A server without such a stream gets one request an hour, or none if it declares no changes.
func TestListWatchWithoutStream(t *testing.T) {
	for name, c := range map[string]struct {
		protocol upstreamtest.Protocols
		declares bool
		fault    upstreamtest.Fault
		want     int // requests in each hour
	}{
		"not declared":       {upstreamtest.Legacy, false, nil, 0},
		"wrong verb":         {upstreamtest.Legacy, true, status(http.StatusMethodNotAllowed), 1},
		"not implemented":    {upstreamtest.Legacy, true, status(http.StatusNotImplemented), 1},
		"no stream":          {upstreamtest.Legacy, true, upstreamtest.HTML(), 1},
		"unknown method":     {upstreamtest.Modern, true, upstreamtest.RPC(-32601, ""), 1},
		"refuses the params": {upstreamtest.Modern, true, upstreamtest.RPC(-32602, ""), 1},
		"an empty answer":    {upstreamtest.Modern, true, status(http.StatusAccepted), 1},
		"ends at once":       {upstreamtest.Modern, true, upstreamtest.Says(`{}`), 1},
	} {
		onFakeClock(t, name, func(t *testing.T) {
			o := upstreamtest.Options{Protocols: c.protocol}
			if c.declares {
				o.Stream = hang
			}
			var faults []upstreamtest.Fault
			if c.fault != nil {
				faults = append(faults, c.fault)
			}
			f, w, _ := watching(t, 1, o, faults...)
			for hour := range 2 {
				for range 59 {
					w.Set(f.targets)
					time.Sleep(time.Minute)
				}
				if n := f.requested(); n != c.want*(hour+1) {
					t.Errorf("%d requests for a stream in %d hours", n, hour+1)
				}
				time.Sleep(2 * time.Minute)
			}
		})
	}
}

// requested returns how often the first server got a request for a stream.
func (f *fixture) requested() (n int) {
	for _, r := range f.servers[0].Requests() {
		if r.Verb == http.MethodGet || r.Method == mcp.MethodListen {
			n++
		}
	}
	return n
}

// status answers with an HTTP status.
func status(code int) upstreamtest.Fault { return upstreamtest.Status(code, "") }

// hang is a stream on which nothing comes.
func hang(ctx context.Context, _ func(string)) { <-ctx.Done() }

// A stream that ends opens again, each time later.
func TestListWatchBackoff(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		start, life := time.Now(), time.Duration(0)
		_, _, c := watching(
			t,
			1,
			upstreamtest.Options{
				Protocols: upstreamtest.Legacy,
				Stream: func(ctx context.Context, _ func(string)) {
					mu.Lock()
					at = append(at, time.Since(start).Round(time.Second)/time.Second)
					d := life
					mu.Unlock()
					sleep(ctx, d)
				},
			},
		)
		time.Sleep(20 * time.Minute)
		mu.Lock()
		if want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111}; !slices.Equal(
			at,
			want,
		) {
			t.Errorf("streams opened at %v, want %v", at, want)
		}
		life = steadyStream
		mu.Unlock()
		c.is(t, 3) // after five minutes without one, the lists may have changed
		time.Sleep(20 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if n := len(at); n < 12+15 {
			t.Errorf("%d streams were opened, although each lived for a minute", n-12)
		}
	})
}

// A server that denies access is not asked often.
func TestListWatchDenied(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f, _, _ := watching(
			t,
			1,
			upstreamtest.Options{Protocols: upstreamtest.Legacy, Stream: hang},
			status(http.StatusForbidden),
		)
		time.Sleep(29 * time.Minute)
		if n := f.requested(); n != 6 {
			t.Errorf("the stream was requested %d times in half an hour", n)
		}
	})
}

// A stream of a lost session opens again on a new session.
func TestListWatchLostSession(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		s := streams{}
		f, _, _ := watching(
			t,
			1,
			upstreamtest.Options{
				Protocols: upstreamtest.Legacy,
				Sessions:  true,
				Stream: func(ctx context.Context, send func(string)) {
					ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
					defer cancel()
					s.serve(ctx, send)
				},
			},
		)
		s.is(t, 1, 1)
		f.servers[0].EndSessions()
		time.Sleep(3 * time.Minute)
		s.is(t, 1, 2)
	})
}

// A flood costs little, and ends the stream. So does a message without an end.
func TestListWatchFlood(t *testing.T) {
	for name, message := range map[string]string{
		"changes": upstreamtest.ToolsChanged,
		"junk":    "x",
		"long":    strings.Repeat("x", maxListMessage),
	} {
		onFakeClock(t, name, func(t *testing.T) {
			var sent, begun atomic.Int32
			_, _, c := watching(
				t,
				1,
				upstreamtest.Options{Stream: func(ctx context.Context, send func(string)) {
					begun.Add(1)
					for ctx.Err() == nil {
						send(message)
						sent.Add(1)
						time.Sleep(100 * time.Microsecond)
					}
				}},
			)
			time.Sleep(time.Minute)
			c.mu.Lock()
			defer c.mu.Unlock()
			if begun.Load() > 10 || sent.Load() > 20_000 || c.of["server0"] > int(sent.Load()) {
				t.Errorf(
					"%d streams with %d messages caused %d reports",
					begun.Load(),
					sent.Load(),
					c.of["server0"],
				)
			}
		})
	}
}

// The gateway answers ping on the stream, because servers end the session otherwise. It refuses any
// other request.
func TestListWatchAnswers(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		s := streams{send: make(chan string)}
		f, _, _ := watching(
			t,
			1,
			upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Stream: s.serve},
		)
		s.send <- ask("7", mcp.MethodPing, `{}`)
		s.send <- ask(`"a"`, mcp.MethodElicit, `{}`)
		synctest.Wait()
		got := map[string]bool{}
		for _, r := range f.servers[0].Requests() {
			if r.Method == "" && r.Verb == http.MethodPost {
				got[string(rawjson.Get(r.Body, "id"))] = rawjson.Get(r.Body, "result") != nil
			}
		}
		if want := map[string]bool{"7": true, `"a"`: false}; !maps.Equal(got, want) {
			t.Errorf("answers %v, want %v", got, want)
		}
		s.is(t, 1, 1)
	})
}

// A notification during a call counts too. One during a load does not, because the load reads the
// lists.
func TestListChangedDuringRequests(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f, _, c := watching(
			t,
			1,
			upstreamtest.Options{Protocols: upstreamtest.Legacy, Tools: tools(1)},
		)
		f.servers[0].FailOn(
			"tools/list",
			1,
			upstreamtest.Says(`{"tools":[]}`, upstreamtest.ToolsChanged),
		)
		f.available()
		c.is(t, 0)
		f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, upstreamtest.ToolsChanged))
		f.works()
		c.is(t, 1)
	})
}
