package sns

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// A client answers with attributes of a topic in XML, or refuses with a status.
type client struct {
	entries string
	status  int
}

const alarms = "arn:aws:sns:eu-central-1:123456789012:alarms"

func (c client) Post(_ context.Context, path string, h http.Header, body []byte) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	asked := form.Get("Action") + " " + form.Get("TopicArn")
	if err != nil || path != "/" || asked != "GetTopicAttributes "+alarms {
		return nil, errors.New("not a request for the attributes of the topic")
	}
	if c.status != 0 {
		answer := &smithyhttp.Response{Response: &http.Response{StatusCode: c.status}}
		refusal := &smithyhttp.ResponseError{Response: answer, Err: errors.New("refused")}
		return nil, &awshttp.ResponseError{ResponseError: refusal}
	}
	return []byte(`<GetTopicAttributesResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">` +
		`<GetTopicAttributesResult><Attributes>` + c.entries +
		`</Attributes></GetTopicAttributesResult></GetTopicAttributesResponse>`), nil
}

func TestConfirmed(t *testing.T) {
	counts := func(confirmed string) string {
		return "<entry><key>SubscriptionsPending</key><value>1</value></entry>" +
			"<entry><key>SubscriptionsConfirmed</key><value>" + confirmed + "</value></entry>"
	}
	for name, c := range map[string]struct {
		client  client
		want    int
		missing bool // the error says that the topic does not exist
		fails   bool
	}{
		"two":         {client{counts("2"), 0}, 2, false, false},
		"one pending": {client{counts("0"), 0}, 0, false, false},
		"no topic":    {client{"", http.StatusNotFound}, 0, true, true},
		"no right":    {client{"", http.StatusForbidden}, 0, false, true},
		"no number":   {client{counts("many"), 0}, 0, false, true},
		"no count":    {client{"", 0}, 0, false, true},
		"no XML":      {client{"<entry>", 0}, 0, false, true},
	} {
		n, err := Topic{c.client, alarms}.Confirmed(t.Context())
		missing := errors.Is(err, object.ErrNotFound)
		if n != c.want || (err != nil) != c.fails || missing != c.missing {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
