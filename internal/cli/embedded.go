package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

// An embedded is the gateway of a folder, opened in this process to do one thing. It listens
// nowhere.
type embedded struct {
	stores  *stores
	program *boot.Program
	api     http.Handler
	running sync.WaitGroup // requests
}

// embedOptions is how a folder is opened. The zero embedOptions starts no programs, and tells
// nobody how far it is.
type embedOptions struct {
	readOnly bool // nothing is written into the folder
	commands bool // servers that are programs are started
	progress func(catalog.Progress)
}

// A folder that is held is waited for: by a gateway that runs no longer than it takes to see that it is
// held, by another command until it is done.
const (
	glance = 100 * time.Millisecond
	turns  = 5 * time.Second
)

// openEmbedded opens the gateway of a folder; nil: one runs there, and answers where the serveInfo
// says.
func openEmbedded(ctx context.Context, folder, actor string, how embedOptions, env *environment) (serveInfo, *embedded, error) {
	began := time.Now()
	for {
		l, err := newLocal(ctx, folder, actor, how, env)
		if err == nil {
			return serveInfo{Address: l.program.Settings.BaseURL}, l, nil
		}
		switch s, runs, failed := runsOn(folder); {
		case errors.Is(err, bolt.ErrHeld) && runs && failed == nil:
			return s, nil, nil
		case !errors.Is(err, bolt.ErrHeld) || time.Since(began) > turns || ctx.Err() != nil:
			return serveInfo{}, nil, err
		}
	}
}

// newLocal builds it. What the environment says of a gateway that runs here holds of it as well.
func newLocal(ctx context.Context, folder, actor string, how embedOptions, env *environment) (_ *embedded, err error) {
	settings, err := localSettings(env.getenv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	if err != nil {
		return nil, err
	}
	settings.SyncEvery = 0   // none is due while no gateway runs
	level := slog.LevelError // what else is worth telling, the command tells
	if env.getenv("PORTCULLIS_LOG_LEVEL") != "" {
		level = settings.LogLevel
	}
	open := openStores
	if how.readOnly {
		open = viewStores
	}
	o, err := open(folder, settings, glance, slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return nil, err
	}
	l := &embedded{stores: o, program: o.build(settings, boot.Options{Commands: how.commands, Progress: how.progress})}
	if l.api, err = bootadmin.API(l.program, l.program, actor); err != nil {
		o.close(ctx)
		return nil, err
	}
	return l, nil
}

// RoundTrip implements [http.RoundTripper]: the API answers in this process.
func (l *embedded) RoundTrip(r *http.Request) (*http.Response, error) {
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

// end waits for what is being done, and closes the stores.
func (l *embedded) end(ctx context.Context) {
	l.running.Wait()
	endServers(ctx, l.program.Upstream)
	l.stores.close(ctx)
}

// A pipeWriter is a response that is read while it is written.
type pipeWriter struct {
	header http.Header
	status int
	into   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when the status is known
	left   bool          // whoever reads has gone before the end
}

// end ends the response. The API panics if it cannot write an answer, which package net/http catches where
// it serves: nobody waits for the rest of this one.
func (a *pipeWriter) end() {
	_ = a.into.Close() // never fails
	if a.left {
		_ = recover()
	}
}

func (a *pipeWriter) Header() http.Header { return a.header }

func (a *pipeWriter) WriteHeader(status int) {
	a.once.Do(func() {
		a.header = a.header.Clone() // the reader's own from here on
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
