package sqs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/portcullis-mcp/portcullis/pkg/aws/sqs"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/queuetest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestQueue(t *testing.T) {
	config := emulator.Config(emulator.Start(t))
	client, number := awssqs.NewFromConfig(config), 0
	queuetest.Run(t, func(t *testing.T, fifo bool) (catalog.Queue, func() []string) {
		number++
		in := &awssqs.CreateQueueInput{QueueName: aws.String(fmt.Sprint("q", number))}
		if fifo {
			*in.QueueName += ".fifo"
			in.Attributes = map[string]string{"FifoQueue": "true"}
		}
		made, err := client.CreateQueue(t.Context(), in)
		require.OK(t, err)
		return sqs.New(config, *made.QueueUrl), func() (out []string) {
			t.Helper()
			for {
				got, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, MaxNumberOfMessages: 10})
				require.OK(t, err)
				if len(got.Messages) == 0 {
					return out
				}
				for _, m := range got.Messages {
					out = append(out, *m.Body)
					_, err := client.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: made.QueueUrl, ReceiptHandle: m.ReceiptHandle})
					require.OK(t, err)
				}
			}
		}
	})
}

// Send repeats a message only if SQS itself failed.
func TestNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		fails  int // how many times the second message fails
		sender bool
		want   string // of the error
		calls  []int  // messages in each
	}{
		"once":         {1, false, "", []int{3, 1}},
		"each time":    {9, false, "InternalError", []int{3, 1, 1}},
		"the sender's": {1, true, "InternalError", []int{3}},
		"no failure":   {0, false, "", []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []int
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var in struct {
					Entries []struct{ ID, MessageBody string } `json:"Entries"`
				}
				require.OK(t, json.Unmarshal(body, &in))
				calls = append(calls, len(in.Entries))
				failed := "[]"
				if len(calls) <= c.fails {
					failed = fmt.Sprintf(`[{"Id":"1","Code":"InternalError","Message":"try again","SenderFault":%t}]`, c.sender)
				}
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				_, _ = fmt.Fprintf(w, `{"Successful":[],"Failed":%s}`, failed)
			}))
			defer server.Close()
			q := sqs.New(aws.Config{
				Region: "us-east-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
				Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
				}),
			}, server.URL+"/1/q")
			err := q.Send(t.Context(), []catalog.Message{{Body: []byte("a")}, {Body: []byte("b")}, {Body: []byte("c")}})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || fmt.Sprint(calls) != fmt.Sprint(c.calls) {
				t.Errorf("Send = %v after calls with %v messages, want %v", err, calls, c.calls)
			}
		})
	}
}
