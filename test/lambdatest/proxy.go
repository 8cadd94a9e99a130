package lambdatest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// A Fault is a way in which a call of a service fails.
type Fault int

// The faults.
const (
	None      Fault = iota
	Gone            // the connection breaks
	Slow            // no answer until the caller cancels
	Throttled       // the service answers that there are too many requests
	Lost            // the call takes effect, and the connection breaks before the answer
	Cut             // the call takes effect, and the connection breaks within the answer
	Garbled         // the call takes effect, and the answer is HTML
	Late            // the answer comes after a second
)

// storms are the faults of [Proxy.Storm].
var storms = []Fault{Slow, Throttled, Gone, Lost, Cut, Garbled, Late}

// functionsPath is the path of functions in the API of Lambda.
const functionsPath = "/2015-03-31/functions/"

// A Proxy is a server in front of an emulator. It counts the calls and makes services fail.
type Proxy struct {
	URL string

	mu      sync.Mutex
	faults  map[string]Fault
	calls   map[string]int
	storm   float64 // share of the calls that get a fault
	struck  map[Fault]int
	death   *death
	roles   map[string]roletest.Role
	checked int                             // calls that were checked against a role
	events  map[string]func(payload []byte) // handlers of events, by function
	running sync.WaitGroup
	server  *httptest.Server
}

// Enforce makes the proxy refuse calls that a function's role does not allow, as AWS does. A
// refused call fails the test. [Start] sets the access key of each function to the function's name.
func (p *Proxy) Enforce(roles map[string]roletest.Role) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles = roles
}

// Checked returns how many calls were checked against a role.
func (p *Proxy) Checked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checked
}

// denied returns the first action of r that the caller's role does not allow, or nil.
func (p *Proxy) denied(t testing.TB, r *http.Request) *roletest.Request {
	p.mu.Lock()
	roles := p.roles
	p.mu.Unlock()
	if roles == nil {
		return nil
	}
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	caller, _, _ := strings.Cut(credential, "/")
	role, known := roles[caller]
	if !known {
		return nil // the test itself is the caller
	}
	p.mu.Lock()
	p.checked++
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil // the caller went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	asked, err := roletest.Of(r, body)
	if err != nil {
		t.Errorf("%s: %v", caller, err)
	}
	for _, q := range asked {
		if !role.Allows(q) {
			t.Errorf("the role of %s does not allow %s", caller, q)
			return &q
		}
	}
	return nil
}

// NewProxy returns a proxy in front of the endpoint. It runs until the test ends.
func NewProxy(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	require.OK(t, err)
	p := &Proxy{faults: map[string]Fault{}, calls: map[string]int{}, struck: map[Fault]int{}}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service, operation := call(r)
		p.mu.Lock()
		p.calls[service+" "+operation]++
		fault := p.fault(service)
		p.mu.Unlock()
		if p.denied(t, r) != nil {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"not authorized"}`)
			return
		}
		if p.dies(r, operation, pass) {
			panic(http.ErrAbortHandler)
		}
		switch fault {
		case Gone:
			panic(http.ErrAbortHandler)
		case Slow:
			// otherwise the server does not notice that the caller left
			_, _ = io.Copy(io.Discard, r.Body)
			waitFor(r.Context())
		case Throttled:
			throttle(w, service)
		case Lost, Cut, Garbled:
			spoil(w, r, pass, fault)
		case Late:
			time.Sleep(lateness)
			pass.ServeHTTP(w, r)
		case None:
			if !p.takeEvent(w, r) {
				pass.ServeHTTP(w, r)
			}
		}
	}))
	t.Cleanup(func() {
		p.running.Wait()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.URL = p.server.URL
	return p
}

// Serve passes the asynchronous events of a function to invoke, one after the other, as Lambda does
// with one environment. The sender of an event does not wait.
func (p *Proxy) Serve(function string, invoke func(payload []byte)) {
	var turn sync.Mutex
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil {
		p.events = map[string]func([]byte){}
	}
	p.events[function] = func(payload []byte) {
		p.running.Go(func() {
			turn.Lock()
			defer turn.Unlock()
			invoke(payload)
		})
	}
}

// takeEvent passes an event to its function. It returns false if [Proxy.Serve] does not have the
// function.
func (p *Proxy) takeEvent(w http.ResponseWriter, r *http.Request) bool {
	name, isCall := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, functionsPath), "/invocations")
	p.mu.Lock()
	take := p.events[name]
	p.mu.Unlock()
	if !isCall || take == nil || r.Header.Get("X-Amz-Invocation-Type") != "Event" {
		return false
	}
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return false // the caller went away
	}
	w.WriteHeader(http.StatusAccepted)
	take(payload)
	return true
}

// waitFor blocks until ctx ends, but at most one minute. Every caller cancels earlier.
func waitFor(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

// Set sets the fault of a service ("s3", "dynamodb", "sqs", "ssm", "secretsmanager", "lambda").
// None ends the fault.
func (p *Proxy) Set(service string, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[service] = f
}

// Storm makes a share of the calls of S3 and DynamoDB fail, each with a random fault: 0.3 is three
// of ten, and 0 ends the faults. A fault of [Proxy.Set] takes precedence.
func (p *Proxy) Storm(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.storm = share
}

// Struck returns how many calls each fault of the storms made fail.
func (p *Proxy) Struck() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.struck)
}

// fault returns the fault of a call of a service. The caller holds mu.
func (p *Proxy) fault(service string) Fault {
	f := p.faults[service]
	if f != None || service != "s3" && service != "dynamodb" || rand.Float64() >= p.storm {
		return f
	}
	f = storms[rand.IntN(len(storms))]
	p.struck[f]++
	return f
}

// writes are the operations that change something.
var writes = []string{http.MethodPut, http.MethodDelete, "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}

// A death describes the write at which a process is killed.
type death struct {
	left int  // writes until the kill, including the write of the kill
	kept bool // the write of the kill takes effect
	kill func()
}

// KillAt calls kill at the n-th write of S3 or DynamoDB from now. The write takes effect before the
// kill if kept is true, and otherwise not at all.
func (p *Proxy) KillAt(n int, kept bool, kill func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.death = &death{n, kept, kill}
}

// Killed reports whether the write of [Proxy.KillAt] happened, and cancels the kill.
func (p *Proxy) Killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.death
	p.death = nil
	return d != nil && d.left <= 0
}

// dies calls kill if r is the write of [Proxy.KillAt], and reports whether it did.
func (p *Proxy) dies(r *http.Request, operation string, pass http.Handler) bool {
	if !slices.Contains(writes, operation) {
		return false
	}
	p.mu.Lock()
	d := p.death
	now := false
	if d != nil {
		d.left--
		now = d.left == 0
	}
	p.mu.Unlock()
	if now && d.kept {
		pass.ServeHTTP(httptest.NewRecorder(), r)
	}
	if now {
		d.kill()
	}
	return now
}

// lateness is how long a [Late] answer takes.
const lateness = time.Second

// spoil passes the call on and damages the answer.
func spoil(w http.ResponseWriter, r *http.Request, pass http.Handler, f Fault) {
	whole := httptest.NewRecorder()
	pass.ServeHTTP(whole, r)
	body := whole.Body.Bytes()
	switch {
	case f == Garbled:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>busy</html>")
		return
	case f == Cut && len(body) > 1:
		maps.Copy(w.Header(), whole.Header())
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// Calls returns how often each call was made ("dynamodb Query", "s3 GET") since the last call of
// Calls.
func (p *Proxy) Calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.calls
	p.calls = map[string]int{}
	return out
}

// call returns the service and the operation of a request.
func call(r *http.Request) (service, operation string) {
	if name, op, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		switch {
		case strings.HasPrefix(name, "DynamoDB"):
			return "dynamodb", op
		case strings.HasPrefix(name, "AmazonSSM"):
			return "ssm", op
		case name == "AmazonSQS":
			return "sqs", op
		}
		return name, op
	}
	if strings.HasPrefix(r.URL.Path, functionsPath) {
		return "lambda", r.Method
	}
	return "s3", r.Method
}

func throttle(w http.ResponseWriter, service string) {
	if service == "s3" {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"arn:aws:dynamodb:us-east-1:123456789012:table/secret is asked too much"}`)
}
