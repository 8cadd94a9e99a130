package lambdatest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// stepsURL names the environment variable that makes this test binary a function. Its value is the
// address from which the function requests its next step.
const stepsURL = "LAMBDATEST_STEPS"

func TestMain(m *testing.M) {
	if url := os.Getenv(stepsURL); url != "" {
		lambda.Start(apigw.NewStream(follower(url), nil).Answer)
	}
	os.Exit(m.Run())
}

// follower returns a handler that requests steps from a URL and executes them.
func follower(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			a, err := http.Get(url)
			if err != nil {
				panic(err)
			}
			step, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			if err != nil {
				panic(err)
			}
			switch verb, arg, _ := strings.Cut(string(step), " "); verb {
			case "status":
				w.WriteHeader(http.StatusTeapot)
			case "write":
				_, _ = io.WriteString(w, arg)
			case "flush":
				_ = http.NewResponseController(w).Flush()
			case "panic":
				panic(arg)
			case "end":
				return
			}
		}
	}
}

// A pace sends steps to a function. A step is done when the function requests the next one.
type pace struct {
	steps chan string
	url   string
}

func newPace(t *testing.T) pace {
	t.Helper()
	p := pace{steps: make(chan string)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case step := <-p.steps:
			_, _ = io.WriteString(w, step)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p.url = s.URL
	return p
}

// do makes the function execute steps, and waits until they are done.
func (p pace) do(t *testing.T, steps ...string) {
	t.Helper()
	for _, step := range steps {
		select {
		case p.steps <- step:
		case <-time.After(20 * time.Second):
			t.Errorf("the function does not request the step %q", step)
			return
		}
	}
}

func newFront(t *testing.T, p pace) *lambdatest.Front {
	t.Helper()
	program, err := os.Executable()
	require.OK(t, err)
	return lambdatest.NewFront(t, func() *lambdatest.Function {
		return lambdatest.Start(t, program, map[string]string{stepsURL: p.url, "PORTCULLIS_STREAMING": "url"})
	})
}

// open sends a request and returns the answer as soon as the head has arrived.
func open(ctx context.Context, t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	require.OK(t, err)
	a, err := http.DefaultClient.Do(r)
	require.OK(t, err)
	t.Cleanup(func() { _ = a.Body.Close() })
	return a
}

// wantNext reads exactly the expected bytes. The function has written no more so far.
func wantNext(t *testing.T, body io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(body, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func TestFrontStreams(t *testing.T) {
	p := newPace(t)
	front := newFront(t, p)
	go p.do(t, "status", "flush")
	a := open(t.Context(), t, front.URL)
	if a.StatusCode != http.StatusTeapot || a.Header.Get("Content-Type") != "text/event-stream" || a.ContentLength != -1 {
		t.Fatalf("head %d %v", a.StatusCode, a.Header)
	}
	for i := range 3 {
		part := fmt.Sprintf("data: %d\n\n", i)
		p.do(t, "write "+part, "flush")
		wantNext(t, a.Body, part) // the function has not written the next part yet
	}
	p.do(t, "write last", "end")
	if rest, err := io.ReadAll(a.Body); err != nil || string(rest) != "last" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// If a function fails midway, the trailer of its answer contains its error.
func TestBrokenAnswer(t *testing.T) {
	p := newPace(t)
	program, err := os.Executable()
	require.OK(t, err)
	f := lambdatest.Start(t, program, map[string]string{stepsURL: p.url})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x.lambda-url.eu-central-1.on.aws/mcp", strings.NewReader("{}"))
	require.OK(t, err)
	go p.do(t, "flush", "write half", "flush", "panic secret")
	a, err := f.From("").RoundTrip(r)
	require.OK(t, err)
	body, err := io.ReadAll(a.Body)
	broken, ok := errors.AsType[*lambdatest.BrokenError](err)
	if !ok || string(body) != "half" || !strings.Contains(broken.Message, "internal error") || strings.Contains(broken.Message, "secret") {
		t.Errorf("%q, %v", body, err)
	}
}
