package decide

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A ServerControl has the processes of servers, and what the servers said; *upstream.Client is one.
type ServerControl interface {
	Messages(server string, after int64) []upstream.Message
	Activity(server string) upstream.Activity
	Restart(server string) (programs int)
}

// A ServerActivity says what this process did at a server in the last 24 hours.
type ServerActivity struct {
	Since       time.Time   `json:"since" doc:"start of the counts, which this process keeps in memory: a restart begins them again"`
	Loads       int         `json:"loads"`
	FailedLoads int         `json:"failed_loads"`
	FailedHours []time.Time `json:"failed_hours,omitempty" doc:"starts of the hours with a failed load"`
	Calls       int         `json:"calls" doc:"calls to the server; calls that the gateway refused do not count"`
	FailedCalls int         `json:"failed_calls"`
	P95         int         `json:"p95_ms,omitempty" doc:"95 of 100 calls took at most this many milliseconds, give or take 9 %"`
	LastError   string      `json:"last_error,omitempty" doc:"of a load or a call, for operators only"`
	LastErrorAt time.Time   `json:"last_error_at,omitzero"`
}

// A ServerMessage is a message of a server for operators, without its credentials.
type ServerMessage struct {
	Number string    `json:"number" doc:"send it as after, to get only later messages"`
	At     time.Time `json:"at"`
	Kind   string    `json:"kind" enum:"stderr,stdout,log,error,program" doc:"stderr and stdout: a line of a program beside its messages; log: a log notification; error: why a load or a call failed; program: a start or an end"`
	Level  string    `json:"level,omitempty" doc:"of a log notification"`
	Text   string    `json:"text" doc:"one line of at most 512 characters"`
	Times  int       `json:"times,omitempty" doc:"how many times in a row, if more than once"`
}

// ServerMessages are the last messages of a server.
type ServerMessages struct {
	Messages []ServerMessage `json:"messages" nullable:"false" doc:"the oldest first, at most 100"`
}

// A RestartedServer is the result of a restart.
type RestartedServer struct {
	Programs int      `json:"programs" doc:"number of programs that ended"`
	Outcome  *Outcome `json:"outcome,omitempty" doc:"result of the load after the restart; absent: the server is disabled, or its load is still due"`
	Tools    int      `json:"tools" doc:"number of known tools of the server"`
}

var errNoControl = Refuse(http.StatusNotImplemented, "servers do not run in this process, so it "+
	"has neither their messages nor their programs; on AWS look in the log of the functions")

// control returns the control of the named configured server.
func (d *Service) control(ctx context.Context, name string) (ServerControl, error) {
	if d.o.Servers == nil {
		return nil, errNoControl
	}
	_, err := d.findServer(ctx, d.View(ctx), name)
	return d.o.Servers, err
}

// ServerMessages returns the last messages of a server after a number.
func (d *Service) ServerMessages(ctx context.Context, name, after string) (ServerMessages, error) {
	out := ServerMessages{Messages: []ServerMessage{}}
	var last int64
	if after != "" {
		var err error
		if last, err = strconv.ParseInt(after, 10, 64); err != nil {
			return out, invalid("after is no number of a message")
		}
	}
	c, err := d.control(ctx, name)
	if err != nil {
		return out, err
	}
	for _, m := range c.Messages(name, last) {
		shown := ServerMessage{strconv.FormatInt(m.Number, 10), m.At, m.Kind, m.Level, m.Text, 0}
		if m.Times > 1 {
			shown.Times = m.Times
		}
		out.Messages = append(out.Messages, shown)
	}
	return out, nil
}

// lastMessage returns the last message of a server for an operator, or "".
func (d *Service) lastMessage(ctx context.Context, name string) string {
	if d.o.Servers == nil || ActorOf(ctx).Rights.Role < identity.Operator {
		return ""
	}
	all := d.o.Servers.Messages(name, 0)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Text
}

// activity returns what this process did at a server; nil: the calls run elsewhere. Only operators
// see the last error, because it may contain data of an agent's call.
func (d *Service) activity(ctx context.Context, name string) *ServerActivity {
	if d.o.Servers == nil {
		return nil
	}
	a := d.o.Servers.Activity(name)
	out := &ServerActivity{
		Since: a.Since, Loads: a.Loads, FailedLoads: a.FailedLoads, FailedHours: a.FailedHours,
		Calls: a.Calls, FailedCalls: a.FailedCalls, P95: int(math.Round(a.P95)),
	}
	if ActorOf(ctx).Rights.Role >= identity.Operator {
		out.LastError, out.LastErrorAt = a.LastError, a.LastErrorAt
	}
	return out
}

// ServerLogs says where the functions on AWS count the loads and calls of a server.
type ServerLogs struct {
	Dashboard string // address of the charts; "": none
	Links     []CallLink
	Query     string // of CloudWatch Logs Insights
}

// ServerLogs returns where loads and calls of a server are counted, if they run in other processes.
func (d *Service) ServerLogs(name string) ServerLogs {
	out := ServerLogs{Dashboard: d.o.Dashboard}
	for _, l := range d.o.CallLinks {
		if l.Group != "" {
			out.Links = append(out.Links, l)
		}
	}
	if len(out.Links) > 0 {
		out.Query = "filter ispresent(UpstreamOutcomes) and server = " + strconv.Quote(name) +
			"\n| stats count(*) as number, pct(UpstreamDuration, 95) as p95_ms by Status, Reason, bin(1h)"
	}
	return out
}

// LoadsOK returns how many loads did not fail.
func (a ServerActivity) LoadsOK() int { return a.Loads - a.FailedLoads }

// RestartServer ends the programs of a server and its sessions, and loads all servers.
func (d *Service) RestartServer(ctx context.Context, name string) (RestartedServer, error) {
	c, err := d.control(ctx, name)
	if err != nil {
		return RestartedServer{}, err
	}
	// A restart does not change what agents may do, so it happens even without its audit event.
	_ = d.Record(
		ctx,
		audit.Line{Action: audit.ActionRestarted, Subject: audit.AboutServer + ":" + name},
	)
	out := RestartedServer{Programs: c.Restart(name)}
	for _, s := range d.syncNow(ctx).Servers {
		if s.Name == name && s.Enabled {
			o := OutcomeOf(s.Name, s.Outcome)
			out.Outcome, out.Tools = &o, s.Tools
		}
	}
	return out, nil
}
