package apigw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
)

// stream answers an event with h.
func stream(t *testing.T, h http.HandlerFunc, log *slog.Logger, payload []byte) *events.LambdaFunctionURLStreamingResponse {
	t.Helper()
	var e apigw.Event
	if err := json.Unmarshal(payload, &e); err != nil {
		t.Fatal(err)
	}
	a, err := apigw.NewStream(h, log).Answer(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// next reads the handler's last flush. The handler waits after it.
func next(t *testing.T, a *events.LambdaFunctionURLStreamingResponse) string {
	t.Helper()
	b := make([]byte, 1<<10)
	n, err := a.Body.Read(b)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b[:n])
}

func rest(t *testing.T, a *events.LambdaFunctionURLStreamingResponse) string {
	t.Helper()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatalf("read: %v after %q", err, b)
	}
	return string(b)
}

func TestStreamOfOnePiece(t *testing.T) {
	for _, p := range payloads {
		t.Run(p.name, func(t *testing.T) {
			for _, tt := range []struct {
				name    string
				handler http.HandlerFunc
				want    events.LambdaFunctionURLStreamingResponse
				body    string
			}{
				{"an answer", func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Length", "2")
					w.Header().Set("Connection", "close")
					w.Header().Add("Vary", "Origin")
					w.Header().Add("Vary", "Accept")
					w.Header().Add("Set-Cookie", "a=1; Path=/")
					w.Header().Add("Set-Cookie", "b=2")
					w.WriteHeader(http.StatusCreated)
					w.WriteHeader(http.StatusOK)
					_, _ = io.WriteString(w, "{")
					_, _ = io.WriteString(w, "}")
				}, events.LambdaFunctionURLStreamingResponse{
					StatusCode: 201, Headers: map[string]string{"Content-Type": "application/json", "Vary": "Origin, Accept"},
					Cookies: []string{"a=1; Path=/", "b=2"},
				}, "{}"},
				{"nothing", func(http.ResponseWriter, *http.Request) {}, events.LambdaFunctionURLStreamingResponse{StatusCode: 200, Headers: map[string]string{}}, ""},
				{"no body", func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusNoContent)
				}, events.LambdaFunctionURLStreamingResponse{StatusCode: 204, Headers: map[string]string{}}, ""},
				{"a panic", func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Half", "done")
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, "half of it")
					panic("secret of the handler")
				}, events.LambdaFunctionURLStreamingResponse{StatusCode: 500, Headers: map[string]string{"Content-Type": "application/json"}},
					`{"jsonrpc":"2.0","id":null,"error":{"code":500,"message":"internal error"}}`},
			} {
				t.Run(tt.name, func(t *testing.T) {
					a := stream(t, tt.handler, nil, p.make(req{method: "POST", path: "/mcp"}))
					if body := rest(t, a); body != tt.body {
						t.Errorf("body %q, want %q", body, tt.body)
					}
					got := events.LambdaFunctionURLStreamingResponse{StatusCode: a.StatusCode, Headers: a.Headers, Cookies: a.Cookies}
					if d := cmp.Diff(tt.want.Headers, got.Headers); d != "" || got.StatusCode != tt.want.StatusCode || !cmp.Equal(tt.want.Cookies, got.Cookies) {
						t.Errorf("%d, cookies %q, headers (-want +got):\n%s", got.StatusCode, got.Cookies, d)
					}
				})
			}
		})
	}
}

// Lambda passes the same bytes to a Function URL and to a REST API: status, headers and cookies as
// JSON, eight zero bytes, the body. The zero bytes are in the first 16 KB.
func TestStreamFraming(t *testing.T) {
	for _, p := range payloads {
		t.Run(p.name, func(t *testing.T) {
			a := stream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Set-Cookie", "a=1; Path=/")
				_, _ = io.WriteString(w, "data: {}\n\n")
			}, nil, p.make(req{method: "POST", path: "/mcp", domain: "gate.example.com", stage: "live"}))
			b, err := io.ReadAll(a)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"statusCode":200,"headers":{"Content-Type":"text/event-stream"},"cookies":["a=1; Path=/"]}` + strings.Repeat("\x00", 8) + "data: {}\n\n"
			if string(b) != want || a.ContentType() != "application/vnd.awslambda.http-integration-response" {
				t.Errorf("%s is %q, want %q", a.ContentType(), b, want)
			}
		})
	}
}

func TestStreamRequest(t *testing.T) {
	for _, p := range payloads {
		t.Run(p.name, func(t *testing.T) {
			a := stream(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				for _, part := range []string{r.Method, r.URL.Path, r.Host, r.RemoteAddr, r.Header.Get("Mcp-Name"), r.Header.Get("Cookie"), apigw.Domain(r.Context()), string(body)} {
					_, _ = io.WriteString(w, part+"\n")
				}
			}, nil, p.make(req{
				method: "POST", path: "/mcp", body: "aGk=", isBase64: true, cookies: []string{"a=1", "b=2"}, domain: "x.lambda-url.eu-west-1.on.aws",
				header: map[string][]string{"Mcp-Name": {"res://a,b"}},
			}))
			if got, want := rest(t, a), "POST\n/mcp\ngw.example\n203.0.113.7\nres://a,b\na=1; b=2\nx.lambda-url.eu-west-1.on.aws\nhi\n"; got != want {
				t.Errorf("the handler saw %q, want %q", got, want)
			}
		})
	}
}

func TestStreamRefuses(t *testing.T) {
	never := func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }
	for name, tt := range map[string]struct {
		req    req
		status int
	}{
		"a large body":           {req{method: "POST", path: "/mcp", body: strings.Repeat("x", 4<<20+1)}, 413},
		"a large body in base64": {req{method: "POST", path: "/mcp", body: strings.Repeat("MTIz", 2<<20), isBase64: true}, 413},
		"an invalid body":        {req{method: "POST", path: "/mcp", body: "!", isBase64: true}, 400},
		"an invalid method":      {req{method: "PO ST", path: "/mcp"}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := stream(t, never, nil, makeV2(tt.req))
			if body := rest(t, a); a.StatusCode != tt.status || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":null,`) {
				t.Errorf("%d %s, want %d", a.StatusCode, body, tt.status)
			}
		})
	}
	for _, text := range []string{`{}`, `{"version":"3.0"}`, `{"version":"2.0"}`, `{"version":"2.0","requestContext":7}`} {
		var e apigw.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if a, err := apigw.NewStream(http.HandlerFunc(never), nil).Answer(t.Context(), e); err == nil {
			t.Errorf("the answer to %s is %v", text, a)
		}
	}
}

// Here the handler waits for the reader, so the test reads each part before the handler writes the
// next part.
func TestStreamPieces(t *testing.T) {
	read := make(chan struct{})
	a := stream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		if err := flush(); err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Late", "is not sent")
		for _, part := range []string{"one", "two"} {
			<-read
			_, _ = io.WriteString(w, part[:1])
			_, _ = io.WriteString(w, part[1:])
			if err := flush(); err != nil {
				t.Error(err)
			}
		}
		<-read
		_, _ = io.WriteString(w, "end")
	}, nil, makeV2(req{method: "POST", path: "/mcp"}))
	if d := cmp.Diff(map[string]string{"Content-Type": "text/event-stream"}, a.Headers); d != "" || a.StatusCode != http.StatusOK {
		t.Fatalf("%d, headers (-want +got):\n%s", a.StatusCode, d)
	}
	for _, want := range []string{"one", "two"} {
		read <- struct{}{}
		if got := next(t, a); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	read <- struct{}{}
	if got := rest(t, a); got != "end" {
		t.Errorf("the rest is %q, want end", got)
	}
}

// While the handler still writes, a stream sends more bytes than a whole answer may have.
func TestStreamOfManyBytes(t *testing.T) {
	part := bytes.Repeat([]byte("x"), 1<<20)
	a := stream(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 20 {
			if _, err := w.Write(part); err != nil {
				t.Error(err)
			}
		}
	}, nil, makeV2(req{method: "POST", path: "/mcp"}))
	if got := len(rest(t, a)); got != 20<<20 {
		t.Errorf("%d bytes, want %d", got, 20<<20)
	}
}

func TestStreamPanicsMidway(t *testing.T) {
	var log bytes.Buffer
	a := stream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "never sent")
		panic("secret of the handler")
	}, slog.New(slog.NewJSONHandler(&log, nil)), makeV2(req{method: "POST", path: "/mcp"}))
	if got := next(t, a); got != "first" {
		t.Errorf("read %q, want first", got)
	}
	rest, err := io.ReadAll(a.Body)
	if len(rest) != 0 || err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("after the panic %q, %v; want an error without the cause", rest, err)
	}
	if !strings.Contains(log.String(), "secret of the handler") || !strings.Contains(log.String(), "stack") {
		t.Errorf("the log is %s", log.String())
	}
}

// Lambda closes an answer that it cannot forward. The handler gets an error and an ended context.
func TestStreamNotRead(t *testing.T) {
	told := make(chan error)
	a := stream(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "x")
		told <- http.NewResponseController(w).Flush()
	}, nil, makeV2(req{method: "POST", path: "/mcp"}))
	_ = a.Close()
	if err := <-told; err == nil {
		t.Error("a flush succeeds without a reader")
	}
}

func TestStreamEndsWithTheFunction(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var e apigw.Event
	if err := json.Unmarshal(makeV2(req{method: "POST", path: "/mcp"}), &e); err != nil {
		t.Fatal(err)
	}
	cancel()
	a, err := apigw.NewStream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	}), nil).Answer(ctx, e)
	if err != nil || a.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%v, %v", a, err)
	}
}

// The runtime's client treats the result of Answer as a stream, and frames it.
func TestStreamWithRuntime(t *testing.T) {
	h := lambda.NewHandler(apigw.NewStream(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello")
	}), nil).Answer)
	out, err := h.Invoke(t.Context(), makeV2(req{method: "GET", path: "/"}))
	want := `{"statusCode":200,"headers":{"Content-Type":"text/plain"}}` + strings.Repeat("\x00", 8) + "hello"
	if err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if _, err := h.Invoke(t.Context(), []byte(`{"source":"aws.s3"}`)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an event that is not a request: %v", err)
	}
}

// The signer of a request to a Function URL is in the same field as in an HTTP API's event.
func TestStreamSigner(t *testing.T) {
	const arn = "arn:aws:sts::123456789012:assumed-role/ci/run"
	for signer, authorizer := range map[string]string{
		arn: `"authorizer":{"iam":{"accessKey":"AKIA","accountId":"123456789012","callerId":"A:run","cognitoIdentity":null,"principalOrgId":null,"userArn":"` + arn + `","userId":"A:run"}},`,
		"":  "",
	} {
		a := stream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, apigw.Signer(r.Context())) }, nil, []byte(`{
			"version":"2.0","routeKey":"$default","rawPath":"/mcp","rawQueryString":"","headers":{"host":"x.lambda-url.eu-west-1.on.aws"},
			"requestContext":{"accountId":"123456789012","apiId":"x",`+authorizer+`"domainName":"x.lambda-url.eu-west-1.on.aws","domainPrefix":"x",
			"http":{"method":"POST","path":"/mcp","protocol":"HTTP/1.1","sourceIp":"203.0.113.7","userAgent":"curl"},
			"requestId":"1","routeKey":"$default","stage":"$default","time":"22/Nov/2026:08:00:00 +0000","timeEpoch":1795420800000},
			"body":"{}","isBase64Encoded":false}`))
		if got := rest(t, a); got != signer {
			t.Errorf("signed by %q, want %q", got, signer)
		}
	}
}
