package bootaws

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A Handler answers the events of a function. It is a [lambda.Handler] or a function that
// [lambda.Start] accepts. Only a function that [lambda.Start] accepts can stream.
type Handler any

// A Function is a Program on AWS.
type Function struct {
	*boot.Program
	AWS    Clients
	Remote SyncFunction // zero: there is none, or this function is the sync function
}

// Main runs the named function (mcp, sync, admin) with the handler that build returns. If the
// function cannot start, it logs the reason at a level that no filter drops.
func Main(name string, open OpenBucket, build func(*Function) (Handler, error)) {
	f, err := start(context.Background(), name, open, os.Getenv, os.Stdout)
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

// start reads the settings, builds the Program, reads the data of the first request and counts the
// start. It fails if the settings are wrong, but not if stores do not answer.
func start(ctx context.Context, name string, open OpenBucket, getenv func(string) string, stdout io.Writer) (*Function, error) {
	began := time.Now()
	s, err := boot.Load(getenv)
	if err != nil {
		return nil, err
	}
	if limit := memoryLimit(getenv); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	defer boot.TuneGC()()
	// spans are for agents' traffic, and the role of /admin cannot read the receiver's headers
	if name == "admin" {
		s.Traces = boot.Traces{}
	}
	log := newLog(stdout, s.LogLevel)
	clients, err := NewClients(s, log, open)
	if err != nil {
		return nil, err
	}
	o := boot.Options{Function: s.Fanout.Function(name), Log: log, Secrets: clients.Secrets, RequestID: apigw.RequestID, Audit: audit.NewLogger(log), Vault: clients.Vault, Table: s.Table}
	var remote SyncFunction
	o.Sends = name == "sync" && s.Fanout.Sends() || s.SyncFunction == InProcess
	if !o.Sends && s.SyncFunction != "" {
		remote = SyncFunction{awsjson.New(clients.Config, "lambda"), s.SyncFunction}
		o.Wake = remote.sendNotice
	}
	p := boot.New(s, clients.Stores, o)
	if s.Fanout.Reads() {
		p.Warm(ctx)
	}
	p.Count(ctx, p.Metrics.ColdStart(time.Since(began)))
	return &Function{p, clients, remote}, nil
}

// memoryLimit returns the memory limit of the Go runtime, in bytes. It is four fifths of the
// function's memory, because Lambda ends a function that exceeds its memory. It is 0 if the size is
// unknown or the operator has set GOMEMLIMIT.
func memoryLimit(getenv func(string) string) int64 {
	mib, err := strconv.ParseInt(getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 32)
	if err != nil || mib <= 0 || getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return mib << 20 / 5 * 4
}

// HTTP returns h as the handler of API Gateway's events.
func (f *Function) HTTP(h http.Handler) Handler {
	return apigw.New(f.Traced(h), f.Log)
}

// Agents returns the handler that answers agents. Behind a Function URL or a REST API that streams,
// it streams; otherwise it sends each answer whole.
func (f *Function) Agents() (Handler, error) {
	if !f.Settings.Streaming {
		h, err := f.Public()
		if err != nil {
			return nil, err
		}
		return f.HTTP(h), nil
	}
	h, err := f.PublicAnywhere(context.Background())
	if err != nil {
		return nil, err
	}
	return apigw.NewStream(f.Traced(h), f.Log).Answer, nil
}
