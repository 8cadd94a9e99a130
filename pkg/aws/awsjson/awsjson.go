// Package awsjson calls AWS services for which the gateway needs only one or two operations. An SDK
// client contains all operations of its service. The clients of Lambda, Secrets Manager and the
// parameter store would add 0.5 MB to a function's zip. Credentials, signatures, addresses and
// retries come from the SDK.
package awsjson

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithytime "github.com/aws/smithy-go/time"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// maxAnswer is the maximum number of bytes of an answer that the client reads. The longest answers
// are searches of a log, with at most 10,000 rows.
const maxAnswer = 16 << 20

// A Client calls one service. It is safe for concurrent use.
type Client struct {
	service string
	o       dynamodb.Options
	signer  *v4.Signer
}

// New returns a client of the service. service is its name in addresses and signatures, such as
// ssm. The SDK completes a config only for its own clients. New therefore takes the defaults from
// the DynamoDB client, which each function contains.
func New(c aws.Config, service string) *Client {
	return &Client{service, dynamodb.NewFromConfig(c).Options(), v4.NewSigner()}
}

// Call sends in as JSON to the operation with this name in the header X-Amz-Target, such as
// AmazonSSM.GetParameter, and decodes the answer into out.
func (c *Client) Call(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	header := http.Header{
		"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {operation},
	}
	answer, err := c.Post(ctx, "/", header, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// Post posts body to a path of the service, retries as the SDK would, and returns the body of the
// answer. If the service refuses the request, the error is a [smithy.APIError] with the code of the
// refusal.
func (c *Client) Post(ctx context.Context, path string, h http.Header, body []byte) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		answer, err := c.post(ctx, path, h, body)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		if attempt >= c.o.Retryer.MaxAttempts() || !c.o.Retryer.IsErrorRetryable(err) {
			return nil, err
		}
		delay, failed := c.o.Retryer.RetryDelay(attempt, err)
		if failed != nil || smithytime.SleepWithContext(ctx, delay) != nil {
			return nil, err
		}
	}
}

func (c *Client) post(ctx context.Context, path string, h http.Header, body []byte) ([]byte, error) {
	r, err := c.request(ctx, path, h, body)
	if err != nil {
		return nil, err
	}
	res, err := c.o.HTTPClient.Do(r)
	if err != nil {
		return nil, &smithyhttp.RequestSendError{Err: err}
	}
	defer func() { _ = res.Body.Close() }() // the body was only read
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, &smithyhttp.RequestSendError{Err: err}
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return nil, refusal(res, answer)
	}
	return answer, nil
}

// request returns a signed request.
func (c *Client) request(ctx context.Context, path string, h http.Header, body []byte) (*http.Request, error) {
	base, err := c.base(ctx)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if maps.Copy(r.Header, h); c.o.Credentials == nil {
		return r, nil // without credentials, requests are not signed
	}
	credentials, err := c.o.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	return r, c.signer.SignHTTP(ctx, credentials, r, hash, c.service, c.o.Region, time.Now())
}

// base returns the address of the service. It has the form of DynamoDB's address, with the
// service's name as the first label.
func (c *Client) base(ctx context.Context) (string, error) {
	fips, dual := c.o.EndpointOptions.UseFIPSEndpoint, c.o.EndpointOptions.UseDualStackEndpoint
	e, err := c.o.EndpointResolverV2.ResolveEndpoint(ctx, dynamodb.EndpointParameters{
		Region: &c.o.Region, Endpoint: c.o.BaseEndpoint,
		UseFIPS:      aws.Bool(fips == aws.FIPSEndpointStateEnabled),
		UseDualStack: aws.Bool(dual == aws.DualStackEndpointStateEnabled),
	})
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(e.URI.Host, "dynamodb"); ok && c.o.BaseEndpoint == nil {
		e.URI.Host = c.service + rest
	}
	return strings.TrimSuffix(e.URI.String(), "/"), nil
}

// refusal returns the error that an answer reports.
func refusal(res *http.Response, body []byte) error {
	var fault struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // some services write Message
	}
	if json.Unmarshal(body, &fault) != nil {
		fault.Message = http.StatusText(res.StatusCode)
	}
	code, _, _ := strings.Cut(res.Header.Get("X-Amzn-Errortype"), ":")
	if code == "" {
		code = fault.Type[strings.LastIndexByte(fault.Type, '#')+1:]
	}
	return &awshttp.ResponseError{
		RequestID: res.Header.Get("X-Amzn-Requestid"),
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: res},
			Err:      &smithy.GenericAPIError{Code: code, Message: fault.Message},
		},
	}
}

// HasCode reports whether a service refused with one of the codes.
func HasCode(err error, codes ...string) bool {
	fault, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains(codes, fault.ErrorCode())
}
