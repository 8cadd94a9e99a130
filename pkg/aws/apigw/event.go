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
	// content returns headers and body as the client sent them. In the event, the body is plain
	// text or base64.
	content() (h http.Header, body string, isBase64 bool)

	// request returns the event as a request, without headers and body.
	request(ctx context.Context) (*http.Request, error)

	// proxy calls the handler and returns its answer in the format of the event.
	proxy(ctx context.Context, a *Adapter) (any, error)

	// plain returns a refusal in the format of the event.
	plain(status int) any
}

// A payload has the members of both formats. So the decoder reads an event only once, although an
// event can be megabytes long.
type payload struct {
	Version         string            `json:"version"`
	Headers         map[string]string `json:"headers"`
	Query           map[string]string `json:"queryStringParameters"`
	PathParameters  map[string]string `json:"pathParameters"`
	StageVariables  map[string]string `json:"stageVariables"`
	RequestContext  json.RawMessage   `json:"requestContext"`
	Body            string            `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`

	// Members of payload 2.0.
	RouteKey       string   `json:"routeKey"`
	RawPath        string   `json:"rawPath"`
	RawQueryString string   `json:"rawQueryString"`
	Cookies        []string `json:"cookies"`

	// Members of payload 1.0.
	Resource          string              `json:"resource"`
	Path              string              `json:"path"`
	HTTPMethod        string              `json:"httpMethod"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`
	MultiValueQuery   map[string][]string `json:"multiValueQueryStringParameters"`
}

// parse selects the format by the event's version. A REST API's event may have no version.
func parse(raw []byte) (event, error) {
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return p.event()
}

// event returns the event in the payload.
func (p payload) event() (event, error) {
	var e event
	var err error
	switch {
	case p.Version == "2.0":
		e, err = newV2(p)
	case (p.Version == "" || p.Version == "1.0") && p.HTTPMethod != "":
		e, err = newV1(p)
	}
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if e == nil {
		return nil, fmt.Errorf("event of version %q is not an HTTP request", p.Version)
	}
	return e, nil
}

// An eventV2 is an event with payload 2.0. The adapter's request has no body, because the adapter
// would copy it.
type eventV2 struct {
	events.APIGatewayV2HTTPRequest
	text     string
	isBase64 bool
}

// newV2 returns nil for an event without an HTTP request.
func newV2(p payload) (event, error) {
	e := &eventV2{text: p.Body, isBase64: p.IsBase64Encoded}
	e.APIGatewayV2HTTPRequest = events.APIGatewayV2HTTPRequest{
		Version: p.Version, RouteKey: p.RouteKey, RawPath: p.RawPath, RawQueryString: p.RawQueryString, Cookies: p.Cookies,
		Headers: p.Headers, QueryStringParameters: p.Query, PathParameters: p.PathParameters, StageVariables: p.StageVariables,
	}
	var probe struct {
		HTTP json.RawMessage `json:"http"`
	}
	if err := unmarshalContext(p.RequestContext, &probe); err != nil || probe.HTTP == nil {
		return nil, err
	}
	return e, unmarshalContext(p.RequestContext, &e.RequestContext)
}

// unmarshalContext reads the context of a request. A missing context is empty.
func unmarshalContext(raw json.RawMessage, to any) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, to)
}

func (e *eventV2) content() (http.Header, string, bool) {
	h := http.Header{}
	for name, value := range e.Headers {
		h.Add(name, value)
	}
	if len(e.Cookies) > 0 {
		h.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	return h, e.text, e.isBase64
}

func (e *eventV2) proxy(ctx context.Context, a *Adapter) (any, error) {
	e.route()
	return a.v2.ProxyWithContext(ctx, e.APIGatewayV2HTTPRequest)
}

func (e *eventV2) request(ctx context.Context) (*http.Request, error) {
	e.route()
	var convert core.RequestAccessorV2
	return convert.EventToRequestWithContext(ctx, e.APIGatewayV2HTTPRequest)
}

// route changes the event's path to the handler's path.
func (e *eventV2) route() {
	if e.RawPath == "" {
		e.RawPath = e.RequestContext.HTTP.Path
	}
	e.RawPath = pathOf(e.RawPath, e.RequestContext.Stage, e.RequestContext.DomainName)
}

func (e *eventV2) plain(status int) any {
	return events.APIGatewayV2HTTPResponse{
		StatusCode: status,
		Headers:    map[string]string{"Content-Type": "application/json"},
		Body:       refusal(status),
	}
}

// An eventV1 is an event of a REST API, or of an HTTP API with payload 1.0.
type eventV1 struct {
	events.APIGatewayProxyRequest
	text     string
	isBase64 bool
	staged   bool // the path begins with the stage, as in an HTTP API's event
}

func newV1(p payload) (event, error) {
	e := &eventV1{text: p.Body, isBase64: p.IsBase64Encoded, staged: p.Version != ""}
	e.APIGatewayProxyRequest = events.APIGatewayProxyRequest{
		Resource: p.Resource, Path: p.Path, HTTPMethod: p.HTTPMethod, Headers: p.Headers, MultiValueHeaders: p.MultiValueHeaders,
		QueryStringParameters: p.Query, MultiValueQueryStringParameters: p.MultiValueQuery,
		PathParameters: p.PathParameters, StageVariables: p.StageVariables,
	}
	return e, unmarshalContext(p.RequestContext, &e.RequestContext)
}

func (e *eventV1) content() (http.Header, string, bool) {
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
	return h, e.text, e.isBase64
}

func (e *eventV1) proxy(ctx context.Context, a *Adapter) (any, error) {
	e.route()
	return a.v1.ProxyWithContext(ctx, e.APIGatewayProxyRequest)
}

func (e *eventV1) request(ctx context.Context) (*http.Request, error) {
	e.route()
	var convert core.RequestAccessor
	return convert.EventToRequestWithContext(ctx, e.APIGatewayProxyRequest)
}

// route changes the event's path to the handler's path.
func (e *eventV1) route() {
	stage := ""
	if e.staged {
		stage = e.RequestContext.Stage
	}
	e.Path = pathOf(e.Path, stage, e.RequestContext.DomainName)
}

func (e *eventV1) plain(status int) any {
	return events.APIGatewayProxyResponse{
		StatusCode:        status,
		MultiValueHeaders: map[string][]string{"Content-Type": {"application/json"}},
		Body:              refusal(status),
	}
}

// Signer returns the ARN that signed the request with AWS credentials, verified by API Gateway. It
// is "" if the route requires no signature. The sender of a request cannot set it.
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

// Domain returns the domain name at which AWS received the request. AWS routes requests for this
// name to the function. It is "" outside of an event. The sender of a request cannot change it.
func Domain(ctx context.Context) string {
	if c, ok := core.GetAPIGatewayV2ContextFromContext(ctx); ok {
		return c.DomainName
	}
	c, _ := core.GetAPIGatewayContextFromContext(ctx)
	return c.DomainName
}
