package sns_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/sns"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const topic = "arn:aws:sns:eu-central-1:123456789012:portcullis"

// publisher returns a Publisher that talks to a server with this answer, and the requests that the
// server got.
func publisher(t *testing.T, status int, answer string) (sns.Publisher, *[]url.Values) {
	t.Helper()
	got := new([]url.Values)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		form.Set("signed for", r.Header.Get("Authorization"))
		*got = append(*got, form)
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return sns.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	}), got
}

func TestPublish(t *testing.T) {
	p, got := publisher(t, http.StatusOK, `<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>`)
	require.OK(t, p.Publish(t.Context(), topic, "Portcullis: news", "Agent \"ci\" asks.\n", map[string]string{"event": "request"}))
	form := (*got)[0]
	for key, want := range map[string]string{
		"Action": "Publish", "TopicArn": topic, "Subject": "Portcullis: news", "Message": "Agent \"ci\" asks.\n",
		"MessageAttributes.entry.1.Name": "event", "MessageAttributes.entry.1.Value.StringValue": "request",
	} {
		if form.Get(key) != want {
			t.Errorf("%s = %q, want %q", key, form.Get(key), want)
		}
	}
	if signed := form.Get("signed for"); !strings.Contains(signed, "/eu-central-1/sns/") {
		t.Errorf("the request is signed for %q, want the topic's region", signed)
	}
}

func TestPublishFails(t *testing.T) {
	fault := func(code string) string {
		return `<ErrorResponse><Error><Type>Sender</Type><Code>` + code + `</Code><Message>no ` + topic + `</Message></Error></ErrorResponse>`
	}
	for code, c := range map[string]struct {
		status  int
		refused bool
	}{
		"NotFound": {404, true}, "AuthorizationError": {403, true}, "InvalidParameter": {400, true}, "InternalError": {500, false}, "Throttled": {429, false},
	} {
		p, _ := publisher(t, c.status, fault(code))
		err := p.Publish(t.Context(), topic, "s", "b", nil)
		if err == nil || errors.Is(err, notify.ErrRefused) != c.refused || strings.Contains(err.Error(), "arn:") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
