package upstream

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// The next process uses the results of handshakes for a day.
func TestMemory(t *testing.T) {
	const initializes = "initialize notifications/initialized tools/list"
	const discovers = "server/discover " + initializes
	for _, sessions := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: sessions})
			load := func(m outcome.Memory, want string) outcome.Memory {
				t.Helper()
				f.servers[0].ForgetRequests()
				f.Client = f.client(Options{})
				f.targets[0].Memory = m
				out := f.available()
				raw, err := json.Marshal(out)
				if err != nil || json.Unmarshal(raw, &out) != nil {
					t.Fatalf("JSON %s loses the memory", raw)
				}
				f.received(want)
				return out.Memory
			}
			first := load(outcome.Memory{}, discovers)
			if first != (outcome.Memory{Handshake: true, Sessions: sessions, At: first.At}) || !first.At.Equal(time.Now()) {
				t.Errorf("first load remembers %+v", first)
			}
			time.Sleep(maxMemory - time.Second)
			if next := load(first, initializes); next != first {
				t.Errorf("next process remembers %+v, want %+v", next, first)
			}
			time.Sleep(time.Second)
			if later := load(first, discovers); !later.At.Equal(time.Now()) {
				t.Errorf("a day later it remembers %+v", later)
			}
		})
	}
}

func TestWrongMemory(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      upstreamtest.Options
		memory outcome.Memory
		fault  upstreamtest.Fault // of initialize; nil: none
		want   string             // methods of a load and a call
		after  bool               // the gateway remembers the handshake protocol
	}{
		{"now stateless", upstreamtest.Options{Protocols: upstreamtest.Modern}, outcome.Memory{Handshake: true, Sessions: true}, nil,
			"initialize server/discover tools/list tools/call", false},
		{"now stateless, initialize not found", upstreamtest.Options{Protocols: upstreamtest.Modern}, outcome.Memory{Handshake: true}, upstreamtest.Status(404, ""),
			"initialize server/discover tools/list tools/call", false},
		{"now both protocols", upstreamtest.Options{}, outcome.Memory{Handshake: true}, nil,
			"initialize notifications/initialized tools/list tools/call", true},
		{"now the handshake protocol", upstreamtest.Options{Protocols: upstreamtest.Legacy}, outcome.Memory{}, nil,
			"server/discover initialize notifications/initialized tools/list tools/call", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, tt.o)
			if tt.fault != nil {
				f.servers[0].FailOn("initialize", -1, tt.fault)
			}
			if tt.memory.Handshake {
				tt.memory.At = time.Now()
			}
			f.targets[0].Memory = tt.memory
			out := f.available()
			f.works()
			f.received(tt.want)
			if out.Attempts != 1 || out.Memory.Handshake != tt.after {
				t.Errorf("Load = %+v, want the handshake protocol remembered %t", out, tt.after)
			}
		})
	}
}

func TestMemoryAfterAFailedLoad(t *testing.T) {
	memory := outcome.Memory{Handshake: true, Sessions: true, At: time.Now().Round(0)}
	for name, fail := range map[string]func(*upstreamtest.Server){
		"down": (*upstreamtest.Server).Refuse, "denied": func(s *upstreamtest.Server) { s.Fail(upstreamtest.Status(403, "")) },
	} {
		f := newFixture(t, Options{}, upstreamtest.Options{})
		fail(f.servers[0])
		f.targets[0].Memory = memory
		if out := f.load(); out.Status == outcome.Available || out.Memory != memory {
			t.Errorf("%s: Load = %+v, want it to remember %+v", name, out, memory)
		}
	}
}

// slowly delays each exchange with a server by d.
func slowly(d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(d)
			next.ServeHTTP(w, r)
		})
	}
}

func TestServerBehindASlowBridge(t *testing.T) {
	onFakeClock(t, "loads", func(t *testing.T) {
		f := newFixture(t, Options{Jitter: noJitter}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Front: slowly(1400 * time.Millisecond)})
		if out := f.available(); out.Attempts != 1 || out.Duration != 5600*time.Millisecond {
			t.Errorf("Load = %+v, want the handshake and the list each in time", out)
		}
	})
	onFakeClock(t, "helps the next process", func(t *testing.T) { // with the result of a slow handshake
		f := newFixture(t, Options{Jitter: noJitter}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Front: slowly(2 * time.Second)})
		out := f.load()
		if out.Reason != outcome.ReasonTimeout || !out.Memory.Handshake {
			t.Fatalf("Load = %s %s, remembers %+v; want a timeout, and the handshake protocol remembered", out.Status, out.Reason, out.Memory)
		}
		f.Client = f.client(Options{})
		f.targets[0].Memory = out.Memory
		if out = f.available(); out.Duration != 6*time.Second {
			t.Errorf("the next Load took %v, want 6s", out.Duration)
		}
	})
}
