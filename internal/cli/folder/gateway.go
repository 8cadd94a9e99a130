package folder

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A Gateway is the gateway of a folder, opened in this process for one action. It does not listen.
type Gateway struct {
	Program *boot.Program
	stores  *Stores
	api     http.Handler
	running sync.WaitGroup // active requests
}

// Options are the options for opening a folder. The zero Options starts no programs, and reports no
// progress.
type Options struct {
	ReadOnly bool // do not write into the folder
	Commands bool // start servers that are programs
	Progress func(catalog.Progress)
}

// The maximum time to wait for a locked folder. Glance is long enough to detect the lock of a
// running gateway. Turns is long enough for another command to end.
const (
	Glance = 100 * time.Millisecond
	Turns  = 5 * time.Second
)

// OpenGateway opens the gateway of a folder. It returns nil if a gateway already runs there; the
// Info then has its address.
func OpenGateway(
	ctx context.Context, dir, actor string, how Options, getenv func(string) string, stderr io.Writer,
) (Info, *Gateway, error) {
	began := time.Now()
	for {
		if s, runs, err := Running(dir); err == nil && runs {
			return s, nil, nil
		}
		l, err := newGateway(ctx, dir, actor, how, getenv, stderr)
		switch {
		case err == nil:
			return Info{Address: l.Program.Settings.BaseURL}, l, nil
		case !errors.Is(err, bolt.ErrHeld) || time.Since(began) > Turns || ctx.Err() != nil:
			return Info{}, nil, err
		}
	}
}

// newGateway builds the gateway. It uses the gateway settings of the environment.
func newGateway(
	ctx context.Context, dir, actor string, how Options, getenv func(string) string, stderr io.Writer,
) (_ *Gateway, err error) {
	settings, err := Settings(getenv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	if err != nil {
		return nil, err
	}
	settings.SyncEvery = 0   // no sync is due without a running gateway
	level := slog.LevelError // the command reports everything else
	if getenv("PORTCULLIS_LOG_LEVEL") != "" {
		level = settings.LogLevel
	}
	log := settings.Process.NewLog(stderr, level)
	o, err := open(dir, settings, Glance, log, how.ReadOnly)
	if err != nil {
		return nil, err
	}
	l := &Gateway{stores: o}
	l.Program = o.Build(settings, boot.Options{Commands: how.Commands, Progress: how.Progress})
	api, err := bootadmin.API(l.Program, l.Program, actor)
	if err != nil {
		o.Close(ctx)
		return nil, err
	}
	l.api = mcphttp.Below(api, settings.BaseURL)
	return l, nil
}

// RoundTrip implements [http.RoundTripper]: the API answers in this process.
func (l *Gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	body, into := io.Pipe()
	w := &pipeWriter{header: http.Header{}, into: into, begun: make(chan struct{})}
	in := r.Clone(r.Context())
	in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	l.running.Go(func() {
		defer w.end()
		l.api.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
	})
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.Close() // never fails
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: w.status, Header: w.header, Body: body, Request: r, ContentLength: -1}, nil
}

// Close waits for active requests, and closes the stores.
func (l *Gateway) Close(ctx context.Context) {
	l.running.Wait()
	EndServers(ctx, l.Program.Upstream)
	l.stores.Close(ctx)
}

// A pipeWriter is a response that can be read while it is written.
type pipeWriter struct {
	header http.Header
	status int
	into   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when the status is known
	left   bool          // the reader has left before the end
}

// end ends the response. The API panics if it cannot write an answer, and here no net/http server
// recovers from the panic. So end recovers if the reader has left, because nobody waits for the
// rest of the answer.
func (a *pipeWriter) end() {
	_ = a.into.Close() // never fails
	if a.left {
		_ = recover()
	}
}

func (a *pipeWriter) Header() http.Header { return a.header }

func (a *pipeWriter) WriteHeader(status int) {
	a.once.Do(func() {
		a.header = a.header.Clone() // the reader now uses the old map
		a.status = status
		close(a.begun)
	})
}

func (a *pipeWriter) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	n, err := a.into.Write(p)
	a.left = a.left || errors.Is(err, io.ErrClosedPipe)
	return n, err
}

// SyncEvery is how often a gateway on one machine syncs.
const SyncEvery = time.Minute

// Settings returns the settings of the environment with defaults for one machine: the gateway may
// dial loopback. If only this machine can reach the gateway, it accepts every caller by default.
func Settings(getenv func(string) string, addr *net.TCPAddr) (boot.Settings, error) {
	defaults := map[string]string{}
	if addr.IP.IsLoopback() {
		defaults = map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_BASE_URL": "http://" + addr.String()}
	}
	// with another way to authenticate, the setting would be a fault
	if strings.Contains(getenv("PORTCULLIS_AUTH"), "token") {
		defaults["PORTCULLIS_TOKEN_KEY"] = tokenKeyDefault
	}
	s, err := boot.Load(func(name string) string { return cmp.Or(getenv(name), defaults[name]) })
	s.SyncEvery = SyncEvery
	s.AllowNets = append(s.AllowNets, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	return s, err
}

// EndServers ends the servers that are programs, and the sessions with all other servers.
func EndServers(ctx context.Context, up *upstream.Client) {
	sessions, done := context.WithTimeout(ctx, time.Second)
	defer done()
	programs, done := context.WithTimeout(ctx, 12*time.Second) // a running installation may finish
	defer done()
	var wg sync.WaitGroup
	wg.Go(func() { up.EndSessions(sessions) })
	wg.Go(func() { up.EndPrograms(programs) })
	wg.Wait()
}
