package apigw

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"
)

// An event is a request in one of the two payload formats.
type event interface {
	// body returns the body as it stands in the event.
	body() (text string, isBase64 bool)

	// header returns the headers as the client sent them, cookies among them.
	header() http.Header

	// proxy asks the handler and returns its answer in the format of the event.
	proxy(ctx context.Context, a *Adapter) (any, error)

	// plain returns a refusal in the format of the event.
	plain(status int) any
}

// parse tells the format by the event's version. An event of a REST API carries
// none.
func parse(payload []byte) (event, error) {
	var probe struct {
		Version        string `json:"version"`
		HTTPMethod     string `json:"httpMethod"`
		RequestContext struct {
			HTTP json.RawMessage `json:"http"`
		} `json:"requestContext"`
	}
	if err := json.Unmarshal(payload, &probe); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	var e event
	switch {
	case probe.Version == "2.0" && probe.RequestContext.HTTP != nil:
		e = &eventV2{}
	case (probe.Version == "" || probe.Version == "1.0") && probe.HTTPMethod != "":
		// The domain's stage stands in the path of an HTTP API's event, not in
		// that of a REST API's.
		e = &eventV1{staged: probe.Version != ""}
	default:
		return nil, fmt.Errorf("event of version %q is not an HTTP request", probe.Version)
	}
	if err := json.Unmarshal(payload, e); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return e, nil
}

type eventV2 struct{ events.APIGatewayV2HTTPRequest }

func (e *eventV2) body() (string, bool) { return e.Body, e.IsBase64Encoded }

func (e *eventV2) header() http.Header {
	h := http.Header{}
	for name, value := range e.Headers {
		h.Add(name, value)
	}
	if len(e.Cookies) > 0 {
		h.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	return h
}

func (e *eventV2) proxy(ctx context.Context, a *Adapter) (any, error) {
	if e.RawPath == "" {
		e.RawPath = e.RequestContext.HTTP.Path
	}
	e.RawPath = a.path(e.RawPath, e.RequestContext.Stage, e.RequestContext.DomainName)
	return a.v2.ProxyWithContext(ctx, e.APIGatewayV2HTTPRequest)
}

func (e *eventV2) plain(status int) any {
	return events.APIGatewayV2HTTPResponse{
		StatusCode: status,
		Headers:    map[string]string{"Content-Type": "application/json"},
		Body:       refusal(status),
	}
}

type eventV1 struct {
	events.APIGatewayProxyRequest
	staged bool
}

func (e *eventV1) body() (string, bool) { return e.Body, e.IsBase64Encoded }

func (e *eventV1) header() http.Header {
	h := http.Header{}
	for name, values := range e.MultiValueHeaders {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	if len(h) == 0 {
		for name, value := range e.Headers {
			h.Add(name, value)
		}
	}
	return h
}

func (e *eventV1) proxy(ctx context.Context, a *Adapter) (any, error) {
	stage := ""
	if e.staged {
		stage = e.RequestContext.Stage
	}
	e.Path = a.path(e.Path, stage, e.RequestContext.DomainName)
	return a.v1.ProxyWithContext(ctx, e.APIGatewayProxyRequest)
}

func (e *eventV1) plain(status int) any {
	return events.APIGatewayProxyResponse{
		StatusCode:        status,
		MultiValueHeaders: map[string][]string{"Content-Type": {"application/json"}},
		Body:              refusal(status),
	}
}

// Signer returns who signed the request with AWS credentials, as API Gateway verified
// it: an ARN. It is "" where the route asks for no signature. The sender of a
// request cannot set it.
func Signer(ctx context.Context) string {
	if c, ok := core.GetAPIGatewayV2ContextFromContext(ctx); ok {
		if c.Authorizer != nil && c.Authorizer.IAM != nil {
			return c.Authorizer.IAM.UserARN
		}
		return ""
	}
	c, _ := core.GetAPIGatewayContextFromContext(ctx)
	return c.Identity.UserArn
}
