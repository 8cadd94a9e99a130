package lambdatest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// An Envelope is the message of a subscription filter of CloudWatch Logs, before compression.
type Envelope struct {
	MessageType         string     `json:"messageType"` // DATA_MESSAGE, or CONTROL_MESSAGE for a test
	Owner               string     `json:"owner"`
	LogGroup            string     `json:"logGroup"`
	LogStream           string     `json:"logStream"`
	SubscriptionFilters []string   `json:"subscriptionFilters"`
	LogEvents           []LogEvent `json:"logEvents"`
}

// A LogEvent is one line of a log.
type LogEvent struct {
	ID        string `json:"id"`
	Timestamp int64  `json:"timestamp"` // milliseconds
	Message   string `json:"message"`
}

// Subscribed returns the envelope of the lines of a function's output that match the filter of
// infra/audit.yaml, { $.audit = 1 }. The emulator does not send log lines to Firehose.
func Subscribed(output string) Envelope {
	e := Envelope{MessageType: "DATA_MESSAGE", Owner: "123456789012", LogGroup: "logs", LogStream: "stream", SubscriptionFilters: []string{"audit"}}
	for line := range strings.Lines(output) {
		var fields struct{ Audit float64 }
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Audit == 1 {
			e.LogEvents = append(e.LogEvents, LogEvent{fmt.Sprintf("%056d", len(e.LogEvents)), time.Now().UnixMilli(), strings.TrimSuffix(line, "\n")})
		}
	}
	return e
}

// Record returns the envelope as a Firehose record.
func (e Envelope) Record() ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(data)
	if err == nil {
		err = z.Close()
	}
	return out.Bytes(), err
}

// Unpack processes a record as the processors of infra/audit.yaml do: Decompression,
// CloudWatchLogProcessing with DataMessageExtraction, AppendDelimiterToRecord.
func Unpack(record []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(record))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, event := range e.LogEvents {
		out.WriteString(event.Message + "\n")
	}
	return out.Bytes(), nil
}

// Row returns the audit line that the table of infra/audit.yaml reads from a log line. Names are
// case-sensitive because the metrics have names such as Status. The time is the time of the log.
func Row(line []byte) (l audit.Line, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return l, err
	}
	for name := range members {
		if name != strings.ToLower(name) {
			delete(members, name)
		}
	}
	members["time"] = members["timestamp"]
	data, err := json.Marshal(members)
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	return l, err
}
