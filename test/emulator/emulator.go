// Package emulator starts an AWS emulator for tests. It uses the emulator at AWS_ENDPOINT_URL, or
// otherwise starts MiniStack on loopback for the time of the test.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/test/local"
)

const (
	endpointEnv  = "AWS_ENDPOINT_URL"     // an emulator that runs already
	ministackEnv = "PORTCULLIS_MINISTACK" // the path of the program `ministack`
)

// keeper starts the emulator ($0, its log $1) and ends the emulator when its own standard input
// ends. If the test process dies, standard input ends too.
const keeper = `"$0" >"$1" 2>&1 & pid=$!
read -r line
kill "$pid"
wait "$pid"`

// Start returns the endpoint of an emulator ("http://127.0.0.1:4566"). If there is no emulator,
// Start skips the test, or fails it if CI=true, because an untested driver may not work. A test
// starts one emulator and passes the endpoint to its subtests.
func Start(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(endpointEnv); endpoint != "" {
		return strings.TrimSuffix(endpoint, "/")
	}
	program := os.Getenv(ministackEnv)
	_, err := exec.LookPath(program)
	if err != nil {
		local.Missing(t, fmt.Sprintf("no AWS emulator: %s is not set, and %s=%q is no program (`make ministack` installs it)", endpointEnv, ministackEnv, program))
	}
	for range 3 { // another process may take the port before the emulator does
		var endpoint string
		if endpoint, err = run(t, program); err == nil {
			return endpoint
		}
	}
	t.Fatal(err)
	return ""
}

// run starts MiniStack on a free port and returns when it answers.
func run(t testing.TB, program string) (string, error) {
	address := local.Addr(t)
	endpoint := "http://" + address
	_, port, _ := net.SplitHostPort(address)
	folder := t.TempDir()
	log := filepath.Join(folder, "ministack.log")
	// Without this, the end of the test's context would kill the keeper before the keeper has ended
	// the emulator.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", keeper, program, log)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(),
		"BIND_HOST=127.0.0.1", "GATEWAY_PORT="+port, "IOT_MTLS_ENABLED=0", "LAMBDA_EXECUTOR=local",
		endpointEnv+"="+endpoint, "TMPDIR="+folder)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := func() {
		_ = stdin.Close()
		_ = cmd.Wait() // it ends by a signal, which is an error
	}
	client := http.Client{Timeout: 5 * time.Second}
	if !local.WaitFor(func() bool {
		answer, err := client.Get(endpoint + "/_ministack/health")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	}) {
		stop()
		said, _ := os.ReadFile(log)
		return "", fmt.Errorf("start %s: no answer after %v; its log:\n%s", program, local.Patience, said)
	}
	t.Cleanup(func() {
		defer stop()
		checkSecrets(t, endpoint)
	})
	return endpoint, nil
}

// Config returns the AWS config of an emulator's clients.
func Config(endpoint string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
}

// S3 returns a client of an emulator.
func S3(endpoint string) *s3.Client {
	return s3.NewFromConfig(Config(endpoint), func(o *s3.Options) { o.UsePathStyle = true })
}

// A Lossy is an HTTP transport that can lose answers: the server handles the request, but the
// client only gets a connection error.
type Lossy struct {
	lose atomic.Bool
}

// LoseNext loses the answer to the next request.
func (l *Lossy) LoseNext() { l.lose.Store(true) }

// RoundTrip implements [http.RoundTripper].
func (l *Lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !l.lose.CompareAndSwap(true, false) {
		return answer, err
	}
	_, _ = io.Copy(io.Discard, answer.Body) // wait until the server has handled the request
	_ = answer.Body.Close()
	return nil, errors.New("connection reset by peer")
}
