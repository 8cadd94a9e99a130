package boot

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/portcullis-mcp/portcullis/pkg/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Handler answers the events of a function.
type Handler = lambda.Handler

// initTime bounds [Program.Warm]. Lambda gives up on a start after 10 s, and begins again.
const initTime = 8 * time.Second

// A Function is a Program on AWS.
type Function struct {
	*Program
	aws AWS
}

// Start builds the function of this name (mcp, sync, admin), reads what the first
// request needs and counts the start. Settings that are wrong are an
// error; stores that do not answer are not.
func Start(ctx context.Context, name string, getenv func(string) string, stdout io.Writer) (*Function, error) {
	began := time.Now()
	s, err := Load(getenv)
	if err != nil {
		return nil, err
	}
	out := &lines{w: stdout}
	log := newLog(out, s.LogLevel)
	clients, err := NewAWS(ctx, s, log)
	if err != nil {
		return nil, err
	}
	p := New(s, clients.Stores, Options{Function: name, Metrics: out, Log: log, Secrets: clients.Secrets, RequestID: apigw.RequestID})
	p.Warm(ctx)
	p.count(ctx, p.Metrics.ColdStart(time.Since(began)))
	return &Function{p, clients}, nil
}

// Refuse logs why a function does not start, at a level that no filter drops.
func Refuse(stdout io.Writer, err error) {
	newLog(stdout, slog.LevelError).LogAttrs(context.Background(), slog.LevelError, "function does not start", slog.Any("error", err))
}

// Serve answers events with h until the environment ends.
func Serve(h Handler) { lambda.Start(h) }

// HTTP returns h as the handler of API Gateway's events.
func (f *Function) HTTP(h http.Handler) Handler {
	return apigw.New(h, &apigw.Options{Log: f.Log})
}

// Warm loads what the first request will read and opens the connections, side
// by side: starting is the one time at which a function has a whole processor.
// What cannot be read is not fatal; requests say so and try again.
func (p *Program) Warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if s := p.States.Load(ctx); !s.Ready() {
			p.Log.LogAttrs(ctx, slog.LevelWarn, "started without config or catalog", slog.Any("config", s.Health.Config.Err), slog.Any("catalog", s.Health.Catalog.Err))
		}
	})
	wg.Go(func() {
		// There is no such tool. The answer does not matter, the open connection does.
		_, _ = p.Stores.Approvals.Get(ctx, tool.ID{Server: "-", Name: "-"})
	})
	wg.Wait()
}

// lines keeps a log line and a metrics line from being written into each other.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
