package awsjson_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func config() aws.Config {
	return aws.Config{
		Region: "eu-west-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", SessionToken: "t"}, nil
		}),
	}
}

func TestCall(t *testing.T) {
	const denied = `{"__type":"com.amazon#AccessDenied","Message":"no"}`
	for _, tt := range []struct {
		name    string
		answers []string // each has a status and a body; the last answer repeats
		want    string   // the value, or part of the error
		calls   int
	}{
		{"an answer", []string{`200 {"Value":"x"}`}, "x", 1},
		{"a retry after a failure", []string{"500 oops", `200 {"Value":"x"}`}, "x", 2},
		{"a retry after throttling", []string{`400 {"__type":"ThrottlingException"}`, `200 {"Value":"x"}`}, "x", 2},
		{"no answer at all", []string{"0 "}, "EOF", 3},
		{"a refusal", []string{"400 " + denied}, "AccessDenied: no", 1},
		{"no JSON", []string{"200 <html>"}, "invalid character", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				signed := r.Header.Get("Authorization")
				want := "AWS4-HMAC-SHA256 Credential=key/"
				if err != nil || !strings.HasPrefix(signed, want) ||
					!strings.Contains(signed, "/eu-west-1/ssm/aws4_request") ||
					r.Header.Get("X-Amz-Security-Token") != "t" ||
					r.Header.Get("X-Amz-Target") != "AmazonSSM.GetParameter" || string(body) != `{"Name":"n"}` {
					t.Errorf("%v: %s: %v", err, body, r.Header)
				}
				var status int
				code, answer, _ := strings.Cut(tt.answers[min(calls, len(tt.answers)-1)], " ")
				_, err = fmt.Sscan(code, &status)
				calls++
				if require.OK(t, err); status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, answer)
			}))
			t.Cleanup(server.Close)
			c := config()
			c.BaseEndpoint = &server.URL
			var out struct{ Value string }
			in := map[string]string{"Name": "n"}
			err := awsjson.New(c, "ssm").Call(t.Context(), "AmazonSSM.GetParameter", in, &out)
			if got := fmt.Sprint(out.Value, err); !strings.Contains(got, tt.want) || calls != tt.calls {
				t.Errorf("%d calls, %s; want %d calls, %s", calls, got, tt.calls, tt.want)
			}
			if awsjson.HasCode(err, "other", "AccessDenied") != (tt.name == "a refusal") {
				t.Errorf("HasCode does not report whether the code is AccessDenied: %v", err)
			}
		})
	}
}

// sources has the settings for FIPS and dual-stack endpoints, as the SDK's config does.
type sources struct{ fips, dual bool }

func (s sources) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	return aws.FIPSEndpointStateEnabled, s.fips, nil
}

func (s sources) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	return aws.DualStackEndpointStateEnabled, s.dual, nil
}

// A host is an HTTP client that only records the address of a request.
type host struct{ name *string }

func (h host) Do(r *http.Request) (*http.Response, error) {
	*h.name = r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
	return nil, io.EOF
}

// The addresses equal the addresses of the SDK's own clients.
func TestAddress(t *testing.T) {
	for _, tt := range []struct {
		region  string
		sources sources
		want    string
	}{
		{"eu-central-1", sources{}, "https://ssm.eu-central-1.amazonaws.com/"},
		{"cn-north-1", sources{}, "https://ssm.cn-north-1.amazonaws.com.cn/"},
		{"us-gov-west-1", sources{}, "https://ssm.us-gov-west-1.amazonaws.com/"},
		{"us-east-1", sources{fips: true}, "https://ssm-fips.us-east-1.amazonaws.com/"},
		{"us-east-1", sources{dual: true}, "https://ssm.us-east-1.api.aws/"},
		{"us-east-1", sources{true, true}, "https://ssm-fips.us-east-1.api.aws/"},
	} {
		c, got := config(), ""
		c.Region, c.ConfigSources, c.HTTPClient = tt.region, []any{tt.sources}, host{&got}
		c.RetryMaxAttempts = 1
		_, err := awsjson.New(c, "ssm").Post(t.Context(), "/", nil, nil)
		if err == nil || got != tt.want {
			t.Errorf("%s %+v: %s, want %s", tt.region, tt.sources, got, tt.want)
		}
	}
}
