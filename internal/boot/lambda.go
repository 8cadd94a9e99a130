package boot

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Handler answers the events of a function. It is a [lambda.Handler] or a function that
// [lambda.Start] takes: the latter alone can stream.
type Handler any

// initTime bounds [Program.warm]. Lambda gives up on a start after 10 s, and begins again.
const initTime = 8 * time.Second

// A Function is a Program on AWS.
type Function struct {
	*Program
	AWS    AWS
	Remote SyncFunction // zero: there is none, or this is it
}

// Main runs the function of this name (mcp, sync, admin) with the handler that build returns. A
// function that cannot start says why in the log, at a level that no filter drops.
func Main(name string, build func(*Function) (Handler, error)) {
	f, err := start(context.Background(), name, os.Getenv, os.Stdout)
	var h Handler
	if err == nil {
		h, err = build(f)
	}
	if err != nil {
		newLog(os.Stdout, slog.LevelError).LogAttrs(context.Background(), slog.LevelError, "function does not start", slog.Any("error", err))
		os.Exit(1)
	}
	lambda.Start(h)
}

// start reads the settings, builds the Program, reads what the first request needs and counts
// the start. Settings that are wrong are an error; stores that do not answer are not.
func start(ctx context.Context, name string, getenv func(string) string, stdout io.Writer) (*Function, error) {
	began := time.Now()
	s, err := Load(getenv)
	if err != nil {
		return nil, err
	}
	if limit := memoryLimit(getenv); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	defer TuneGC()()
	if name == "admin" { // people are no traffic, and its role reads no header of a receiver
		s.Traces = Traces{}
	}
	log := newLog(stdout, s.LogLevel)
	clients, err := NewAWS(s, log)
	if err != nil {
		return nil, err
	}
	o := Options{Function: s.Fanout.function(name), Log: log, Secrets: clients.Secrets, RequestID: apigw.RequestID, Audit: audit.NewLogger(log)}
	var remote SyncFunction
	if o.Sends = name == "sync" && s.Fanout.sends() || s.SyncFunction == InProcess; !o.Sends {
		remote = syncFunction(s, clients.Config)
	}
	if remote.Exists() {
		o.Wake = remote.SendNotice
	}
	p := New(s, clients.Stores, o)
	if s.Fanout.reads() {
		p.warm(ctx)
	}
	p.Count(ctx, p.Metrics.ColdStart(time.Since(began)))
	return &Function{p, clients, remote}, nil
}

// memoryLimit returns at how many bytes a function begins to save memory: four fifths of what
// it has, as Lambda ends one that takes more than all. 0: that is not known, or the operator has set GOMEMLIMIT.
func memoryLimit(getenv func(string) string) int64 {
	mib, err := strconv.ParseInt(getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 32)
	if err != nil || mib <= 0 || getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return mib << 20 / 5 * 4
}

// HTTP returns h as the handler of API Gateway's events.
func (f *Function) HTTP(h http.Handler) Handler {
	return apigw.New(f.Traced(h), &apigw.Options{Log: f.Log})
}

// warm loads what the first request will read and opens the connections, side
// by side: starting is the one time at which a function has a whole processor.
// What cannot be read is not fatal; requests say so and try again.
func (p *Program) warm(ctx context.Context) {
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
	if p.Settings.Access.Takes(identity.WayToken) {
		wg.Go(func() { _ = p.readTokens(ctx) }) // whoever builds the handlers is told what is wrong
	}
	wg.Wait()
}
