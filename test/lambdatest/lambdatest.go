// Package lambdatest runs a built function as Lambda does: a process requests events from a runtime
// API and posts its answers there.
//
// The test serves the runtime API. It therefore tests the deployed program, with its real start,
// environment and log lines. The API accepts whole answers and streamed answers.
//
// A [Stack] contains the resources that the functions need, on an emulator. HTTP clients call the
// functions through a [Front]:
//
//	programs := lambdatest.Build(t, repo.Path("."), "mcp", "sync")
//	stack := lambdatest.NewStack(t, emulator.Start(t), programs, map[string]string{
//		"PORTCULLIS_AUTH": "none", "PORTCULLIS_STREAMING": "url", // without it: behind an HTTP API
//	})
//	stack.Configure(`{"mcpServers":{…}}`)
//	stack.Sync(t)
//	client.Connect(stack.Front(t).URL + "/mcp")
package lambdatest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// Limits of a test. The limits in production are shorter.
const (
	startLimit  = time.Minute
	invokeLimit = time.Minute
)

// FunctionARN is the ARN that an invocation names.
const FunctionARN = "arn:aws:lambda:eu-central-1:123456789012:function:portcullis"

// Build builds the functions (mcp, sync, admin) as the template does, for this machine,
// and returns the folder with the programs. If there are built programs, it returns their folder.
func Build(t testing.TB, module string, names ...string) string {
	t.Helper()
	if built := repo.Programs(); built != "" {
		return built
	}
	dir := t.TempDir()
	args := []string{"build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./functions/"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return dir
}

// A Function is a running function.
type Function struct {
	agenttest.Client // set if a [Stack] started the function

	Started    time.Duration  // time from process start to the first request for an event
	Authorizer map[string]any // in the context of the requests that come through Client; nil: none

	t       testing.TB
	timeout time.Duration // of an invocation, as in the template
	cmd     *exec.Cmd
	server  *http.Server
	out     string // file of what it writes
	events  chan event
	ready   chan struct{}
	once    sync.Once
	ended   chan struct{}
	err     error // of the process; valid after ended

	mu      sync.Mutex
	waiting map[string]chan Answer
	count   int
}

type event struct {
	id      string
	payload []byte
}

// An Answer is the answer of a function to an event.
type Answer struct {
	RequestID string
	Payload   []byte
	Failed    bool    // Payload is {"errorMessage", "errorType"}
	Output    string  // what the function wrote to its standard streams during the invocation
	Stream    *Stream // nil: the answer is not streamed
}

// Start runs the program with only env and the variables of Lambda as its environment. The program
// ends with the test. Ready reports whether the start succeeded.
func Start(t testing.TB, program string, env map[string]string) *Function {
	t.Helper()
	f := &Function{
		t: t, out: filepath.Join(t.TempDir(), "out"), events: make(chan event), ready: make(chan struct{}),
		ended: make(chan struct{}), waiting: map[string]chan Answer{}, timeout: 28 * time.Second,
	}
	if front := env["PORTCULLIS_STREAMING"]; front == "url" || front == "rest" {
		f.timeout = 900 * time.Second
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.OK(t, err)
	f.server = &http.Server{Handler: f.api(), ReadHeaderTimeout: time.Minute}
	go func() { _ = f.server.Serve(listener) }()
	out, err := os.Create(f.out)
	require.OK(t, err)
	defer func() { _ = out.Close() }()                                       // the process has its own
	f.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program) // Stop ends it
	f.cmd.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME=" + filepath.Base(program),
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=" + filepath.Base(program), "AWS_SECRET_ACCESS_KEY=test",
		"AWS_EC2_METADATA_DISABLED=true",
	}
	for name, value := range env {
		f.cmd.Env = append(f.cmd.Env, name+"="+value)
	}
	// a file, unlike a pipe, has all lines that were written before an answer
	f.cmd.Stdout, f.cmd.Stderr = out, out
	began := time.Now()
	require.OK(t, f.cmd.Start())
	go func() {
		f.err = f.cmd.Wait()
		close(f.ended)
	}()
	t.Cleanup(f.Stop)
	select {
	case <-f.ready:
		f.Started = time.Since(began)
	case <-f.ended:
	case <-time.After(startLimit):
		t.Fatalf("%s did not ask for an event within %v:\n%s", program, startLimit, f.Output())
	}
	return f
}

// PID returns the id of the process.
func (f *Function) PID() int { return f.cmd.Process.Pid }

// Ready reports whether the function is running.
func (f *Function) Ready() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// Stop ends the process and the runtime API. The test fails if the function wrote a secret of a
// sign-in, or a JSON line that contains a member twice, because some log readers use the first one
// and others the last.
func (f *Function) Stop() {
	f.once.Do(func() {
		_ = f.cmd.Process.Kill()
		<-f.ended
		_ = f.server.Close()
		secrettest.Absent(f.t, "the log of "+f.cmd.Path, f.Output())
		for line := range strings.Lines(f.Output()) {
			if name := repeatedMember(line); name != "" {
				f.t.Errorf("line has the member %q twice: %s", name, line)
			}
		}
	})
}

// Invoke sends the function an event and returns its answer. If the answer streams, Invoke returns
// the whole body.
func (f *Function) Invoke(payload []byte) Answer {
	f.t.Helper()
	before, err := os.Stat(f.out)
	require.OK(f.t, err)
	a, err := f.invoke(payload)
	if err != nil {
		f.t.Fatalf("%v; the function wrote:\n%s", err, f.Output())
	}
	if a.Stream != nil {
		a.Payload, err = io.ReadAll(a.Stream.Body)
		a.Failed = err != nil
	}
	a.Output = f.outputFrom(before.Size())
	return a
}

// Try does the same as [Function.Invoke], for a function that may end before it answers. In that
// case Try returns an error.
func (f *Function) Try(payload []byte) (Answer, error) { return f.invoke(payload) }

func (f *Function) invoke(payload []byte) (Answer, error) {
	f.mu.Lock()
	f.count++
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", f.count)
	answer := make(chan Answer, 1)
	f.waiting[id] = answer
	f.mu.Unlock()
	patience := max(invokeLimit, f.timeout)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case f.events <- event{id, payload}:
	case <-f.ended:
		return Answer{}, fmt.Errorf("the function ended: %w", f.err)
	case <-limit.C:
		return Answer{}, fmt.Errorf("the function did not request the event within %v", patience)
	}
	select {
	case a := <-answer:
		secrettest.Absent(f.t, "an answer of "+f.cmd.Path, string(a.Payload))
		return a, nil
	case <-f.ended:
		return Answer{}, fmt.Errorf("the function ended before it answered: %w", f.err)
	case <-limit.C:
		return Answer{}, fmt.Errorf("no answer within %v", patience)
	}
}

// Output returns all that the function has written to its standard streams.
func (f *Function) Output() string { return f.outputFrom(0) }

func (f *Function) outputFrom(offset int64) string {
	f.t.Helper()
	file, err := os.Open(f.out)
	require.OK(f.t, err)
	defer func() { _ = file.Close() }() // the file was only read
	data, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<40))
	require.OK(f.t, err)
	return string(data)
}

// Wait waits until the process has ended, and returns its error.
func (f *Function) Wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
