package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
)

// A folderGateway forwards requests to the gateway of a folder, and starts one if none runs.
type folderGateway struct {
	flags  stdioCmd
	stderr io.Writer
	log    *slog.Logger

	mu  sync.Mutex
	at  folder.Info
	own *gatewayProcess // nil: another process started the gateway
}

// A gatewayProcess is a gateway that this process has started; see [clientGateway].
type gatewayProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// RoundTrip implements [http.RoundTripper]. If the gateway was started for another client and ended
// with that client, RoundTrip finds or starts another gateway and repeats the request.
func (g *folderGateway) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	for {
		g.mu.Lock()
		at := g.at
		g.mu.Unlock()
		out := r.Clone(r.Context())
		out.URL.Host, out.Host = strings.TrimPrefix(at.Address, "http://"), ""
		if r.GetBody != nil {
			var err error
			if out.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err == nil || !at.Client || !client.BeforeSending(err) || r.Context().Err() != nil {
			return resp, err
		}
		if failed := g.find(r.Context(), at); failed != nil {
			g.log.LogAttrs(r.Context(), slog.LevelError, "gateway not started", slog.Any("error", failed))
			return nil, err
		}
	}
}

// find finds or starts a gateway. It ignores the gateway in gone, because that process may still be
// ending.
func (g *folderGateway) find(ctx context.Context, gone folder.Info) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at.PID != gone.PID {
		return nil // another request has already found a new gateway
	}
	var failed error
	var began time.Time
	for {
		s, runs, err := folder.Running(g.flags.Dir)
		switch {
		case runs && s.PID != gone.PID:
			g.at, g.own = s, nil
			return nil
		case err != nil:
			return err
		case runs:
		case failed == nil:
			if failed = g.start(); failed == nil {
				return nil
			}
			began = time.Now()
		// wait for folder.Turns: another client may be starting a gateway at the same time
		case time.Since(began) > folder.Turns:
			return failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery / 10):
		}
	}
}

// start starts a gateway. If this process ends first, the gateway continues until its first sync
// ends.
func (g *folderGateway) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"serve", "--for-client", "--dir=" + g.flags.Dir, "--addr=" + g.flags.Addr, "--actor=" + g.flags.Actor}
	if g.flags.AllowCommands {
		args = append(args, "--allow-commands")
	}
	// the command is this program, and must continue after ctx ends
	cmd := exec.Command(self, args...) //nolint:gosec,noctx // see above
	cmd.SysProcAttr = detached()
	// Do not pass the file itself: the child would keep it open, and the client may wait until it
	// is closed.
	cmd.Stderr = struct{ io.Writer }{g.stderr}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &gatewayProcess{cmd, in, bufio.NewReader(out)}
	line, _ := p.out.ReadString('\n') // without a line, the process has ended
	if address := strings.TrimSpace(line); strings.HasPrefix(address, "http://") {
		g.at, g.own = folder.Info{Address: address, PID: cmd.Process.Pid, Client: true}, p
		return nil
	}
	return cmp.Or(p.ended(line), errors.New("the gateway ended before it answered: its log says why"))
}

// leave tells the gateway that the client has left. It waits for the gateway's end, unless a first
// sync is running.
func (g *folderGateway) leave(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.own == nil {
		return nil
	}
	_ = g.own.in.Close()                  // it may have ended
	line, _ := g.own.out.ReadString('\n') // at the end there is no line
	if strings.TrimSpace(line) == goesOn {
		g.log.LogAttrs(ctx, slog.LevelInfo, "the client has left; the first sync goes on", slog.Int("process", g.at.PID))
		return nil
	}
	return g.own.ended(line)
}

// ended waits for the end of the process, and returns the error that it wrote. begun is the part
// that was already read.
func (p *gatewayProcess) ended(begun string) error {
	rest, _ := io.ReadAll(p.out) // a partial text is enough
	err := p.cmd.Wait()
	if words := strings.TrimSpace(begun + string(rest)); words != "" {
		return errors.New(words)
	}
	return err
}
