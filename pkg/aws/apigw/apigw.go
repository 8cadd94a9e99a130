// Package apigw stands between API Gateway or a Function URL and an http.Handler: it turns
// a Lambda event into a request and the answer into an event, or into a stream.
//
// It takes payload 2.0 (HTTP API, Function URL) and 1.0 (REST API), told apart by
// the event itself. Which of the two answers a function gives, whole or as a stream, is
// settled where it is deployed: no event says it. The conversion is done by aws-lambda-go-api-proxy, which
// is archived; what it gets wrong is mended here, and it is used nowhere else.
package apigw

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

const (
	maxBody = 4 << 20 // of a request

	// maxAnswer is what Lambda takes back from a function, as JSON. An answer over
	// it would reach the client as a bare 502.
	maxAnswer = 6 << 20
)

// An Adapter feeds events to a handler. It is safe for concurrent use.
type Adapter struct {
	log *slog.Logger
	v1  *httpadapter.HandlerAdapter
	v2  *httpadapter.HandlerAdapterV2
}

var _ lambda.Handler = (*Adapter)(nil)

// New returns an Adapter for h. It makes no call. A nil log drops the lines.
func New(h http.Handler, log *slog.Logger) *Adapter {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	g := &guard{next: h, log: log}
	return &Adapter{log, httpadapter.New(g), httpadapter.NewV2(g)}
}

// Invoke answers one event. Whatever the request holds, the answer is an HTTP
// response; an error means that the payload is no request at all.
func (a *Adapter) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := parse(payload)
	if err != nil {
		return nil, err
	}
	header, text, isBase64 := e.sent()
	body, status := decode(text, isBase64)
	if status != 0 {
		return encode(e.plain(status))
	}
	res, err := e.proxy(context.WithValue(ctx, sentKey{}, sent{header, body}), a)
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "event not converted", slog.Any("error", err))
		return encode(e.plain(http.StatusBadRequest))
	}
	out, err := encode(res)
	if errors.Is(err, errTooLarge) {
		a.log.LogAttrs(ctx, slog.LevelError, "answer not sent", slog.Any("error", err), slog.String("request_id", RequestID(ctx)))
		return encode(e.plain(http.StatusInternalServerError))
	}
	return out, err
}

// A reader is a body that is in memory.
type reader interface {
	io.Reader
	Len() int
}

// decode returns the body that stands in an event, or the status with which it is refused. The
// length is looked at before anything is decoded.
func decode(text string, isBase64 bool) (body reader, status int) {
	if !isBase64 {
		if len(text) > maxBody {
			return nil, http.StatusRequestEntityTooLarge
		}
		return strings.NewReader(text), 0
	}
	if len(text) > base64.StdEncoding.EncodedLen(maxBody) {
		return nil, http.StatusRequestEntityTooLarge
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return bytes.NewReader(decoded), 0
}

// pathOf returns the path that the handler knows. An API's own address has the stage in front of it,
// if the payload says so.
func pathOf(raw, stage, domain string) string {
	if stage != "" && stage != "$default" && strings.Contains(domain, ".execute-api.") {
		if rest, ok := strings.CutPrefix(raw, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			raw = rest
		}
	}
	if !strings.HasPrefix(raw, "/") {
		raw = "/" + raw
	}
	// HTTP APIs hand the path on decoded. What has a meaning in a URL is put back.
	if _, err := url.PathUnescape(raw); err != nil {
		return (&url.URL{Path: raw}).EscapedPath()
	}
	return strings.NewReplacer("?", "%3F", "#", "%23", " ", "%20").Replace(raw)
}

var errTooLarge = errors.New("answer is over Lambda's limit")

// encode writes an answer as the runtime would, without escaping HTML, which would
// make six bytes of each angle bracket.
func encode(res any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(res); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if b.Len() > maxAnswer {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, b.Len())
	}
	return []byte(b.String()), nil
}

// refusal is a JSON-RPC error: some clients end their session at any other body.
func refusal(status int) string {
	msg := map[int]string{
		http.StatusBadRequest:            "bad request",
		http.StatusRequestEntityTooLarge: "body too large",
	}[status]
	if msg == "" {
		msg = "internal error"
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, status, msg)
}
