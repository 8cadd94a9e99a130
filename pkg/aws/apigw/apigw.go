// Package apigw connects API Gateway or a Function URL to an http.Handler. It turns a Lambda event
// into a request and the answer into an event, or into a stream.
//
// It accepts payload 2.0 (HTTP API, Function URL) and 1.0 (REST API), and detects the format from
// the event. The deployment selects whole answers or streams, because an event does not name the
// kind. The archived module aws-lambda-go-api-proxy converts events. Only this package imports the
// module, and it corrects the module's errors.
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

	// maxAnswer is the maximum length of a JSON answer that Lambda accepts from a function. Instead
	// of a longer answer, the client would get a 502 without a reason.
	maxAnswer = 6 << 20
)

// An Adapter passes events to a handler. It is safe for concurrent use.
type Adapter struct {
	log *slog.Logger
	v1  *httpadapter.HandlerAdapter
	v2  *httpadapter.HandlerAdapterV2
}

var _ lambda.Handler = (*Adapter)(nil)

// New returns an Adapter for h. If log is nil, the Adapter logs nothing.
func New(h http.Handler, log *slog.Logger) *Adapter {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	g := &guard{next: h, log: log}
	return &Adapter{log, httpadapter.New(g), httpadapter.NewV2(g)}
}

// Invoke answers one event with an HTTP response. It fails if the payload is not a request.
func (a *Adapter) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := parse(payload)
	if err != nil {
		return nil, err
	}
	header, text, isBase64 := e.content()
	body, status := decode(text, isBase64)
	if status != 0 {
		return encode(e.plain(status))
	}
	res, err := e.proxy(context.WithValue(ctx, contentKey{}, content{header, body}), a)
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

// A reader is a body in memory.
type reader interface {
	io.Reader
	Len() int
}

// decode returns the body of an event, or the status of the refusal. It checks the length before it
// decodes anything.
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

// pathOf returns the path for the handler. At an API's own address, the path may begin with the
// stage, and pathOf removes it.
func pathOf(raw, stage, domain string) string {
	if stage != "" && stage != "$default" && strings.Contains(domain, ".execute-api.") {
		if rest, ok := strings.CutPrefix(raw, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			raw = rest
		}
	}
	if !strings.HasPrefix(raw, "/") {
		raw = "/" + raw
	}
	// HTTP APIs decode the path. Encode the characters that have a meaning in a URL.
	if _, err := url.PathUnescape(raw); err != nil {
		return (&url.URL{Path: raw}).EscapedPath()
	}
	return strings.NewReplacer("?", "%3F", "#", "%23", " ", "%20").Replace(raw)
}

var errTooLarge = errors.New("answer is over Lambda's limit")

// encode returns an answer as JSON, as the Lambda runtime does, but without HTML escapes. An escape
// takes six bytes for each angle bracket.
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

// refusal returns a JSON-RPC error, because some clients end their session after any other body.
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
