package decide

import (
	"context"
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
	Restart(server string) (programs int)
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
