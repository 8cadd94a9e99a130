package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// Clients of one agent have separate sessions. A caller without a client shares the agent's
// session. Every session ends.
func TestSessionsOfClients(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f := newFixture(t, Options{Now: time.Now}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Call: upstreamtest.Notebook()})
		s := f.servers[0]
		as := func(agent, client string) {
			t.Helper()
			agent, user, _ := strings.Cut(agent, " of ")
			o := owner(agent)
			o.User, o.Client = user, client
			if _, err := f.call(Call{Owner: o, Name: "read"}); err != nil {
				t.Fatal(err)
			}
		}
		as("a", "1")
		as("a", "2")
		as("a", "")
		as("b", "1")
		as("a", "1")
		as("a", "")
		if n := len(s.Sessions()); n != 4 {
			t.Errorf("%d sessions, want 4", n)
		}
		for i := range 40 {
			as("a", fmt.Sprint("many ", i))
		}
		time.Sleep(time.Second)
		if n, most := len(s.Sessions()), maxClientSessions+2; n != most {
			t.Errorf("%d sessions, want %d: the sessions of single clients, the agent's and another client's", n, most)
		}
		// another user of the agent does not displace these sessions
		for i := range maxClientSessions {
			as("a of u", fmt.Sprint("many ", i))
		}
		s.ForgetRequests()
		as("a", "")
		as("b", "1")
		as("a", "many 39")
		if got := len(s.Received("initialize")); got != 0 {
			t.Errorf("%d sessions were opened again", got)
		}
		as("a", "many 0")
		if got := len(s.Received("initialize")); got != 1 {
			t.Errorf("%d sessions were opened", got)
		}
		time.Sleep(idleSession + 2*sweepEvery)
		if left := s.Sessions(); len(left) != 0 {
			t.Errorf("sessions after the idle time = %v, want none", left)
		}
	})
}

// The idle time of a session begins at the end of its last call.
func TestSessionOfALongCall(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f := newFixture(t, Options{Now: time.Now, CallTime: time.Hour}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
		f.targets[0].Timeout = time.Hour
		f.servers[0].FailOn("tools/call", 1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
			upstreamtest.Slow(50*time.Minute)(s, w, r, serve)
		})
		f.works()
		time.Sleep(25 * time.Minute)
		f.works()
		f.received("server/discover initialize notifications/initialized tools/call tools/call")
	})
}
