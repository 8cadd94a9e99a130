// Package sns publishes notices to topics of Amazon SNS, whose subscribers are mailboxes, queues
// and telephones. It also counts the subscribers of a topic.
package sns

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/smithy-go"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
)

// A Publisher is a [notify.Publisher] of SNS.
type Publisher struct{ client *sns.Client }

var _ notify.Publisher = Publisher{}

// New returns a Publisher.
func New(c aws.Config) Publisher { return Publisher{sns.NewFromConfig(c)} }

// Publish implements [notify.Publisher]. It calls the region of the topic.
func (p Publisher) Publish(ctx context.Context, topic, subject, body string, attributes map[string]string) error {
	in := &sns.PublishInput{TopicArn: &topic, Subject: &subject, Message: &body, MessageAttributes: map[string]types.MessageAttributeValue{}}
	for name, value := range attributes {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	_, err := p.client.Publish(ctx, in, func(o *sns.Options) {
		if region := regionOf(topic); region != "" {
			o.Region = region
		}
	})
	return explain(err)
}

// regionOf returns the region in the ARN of a topic, or "".
func regionOf(topic string) string {
	if parts := strings.Split(topic, ":"); len(parts) == 6 {
		return parts[3]
	}
	return ""
}

// explain returns the meaning of an error without SNS's text, which contains ARNs.
func explain(err error) error {
	if err == nil {
		return nil
	}
	refusal, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return errors.New("publish: no answer")
	}
	switch code := refusal.ErrorCode(); code {
	case "NotFound", "NotFoundException", "AuthorizationError", "AuthorizationErrorException", "AccessDenied", "AccessDeniedException", "InvalidParameter", "InvalidParameterException",
		"EndpointDisabled", "EndpointDisabledException", "InvalidSecurity", "KMSAccessDenied", "KMSNotFound", "KMSDisabled", "InvalidClientTokenId":
		return fmt.Errorf("publish: %s: %w", code, notify.ErrRefused)
	default:
		return fmt.Errorf("publish: %s", code)
	}
}
