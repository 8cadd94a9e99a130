package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
)

// An event is what started a sync, as far as it matters.
type event struct {
	trigger string // schedule, config, admin, outbox or invoke
	key     string // of the object that changed; "": none did
}

// outbox is the trigger of who put a notice into the outbox: it is sent, and no sync is run.
const outbox = "outbox"

// configPrefix is where what a sync reads lies. What it writes lies elsewhere: an event
// about that must not start another one.
const configPrefix = "config/"

// wanted reports whether the event asks for a sync.
func (e event) wanted() bool {
	return e.trigger != "config" || strings.HasPrefix(e.key, configPrefix)
}

// parseEvent takes the schedule's event, an object event in EventBridge's shape
// and in S3's own, and whatever a direct invocation holds. Any JSON is an event.
func parseEvent(payload []byte) (event, error) {
	if len(payload) == 0 {
		return event{trigger: "invoke"}, nil
	}
	if !json.Valid(payload) {
		return event{}, errors.New("event is not JSON")
	}
	var e struct {
		Source string `json:"source"`
		Event  string `json:"Event"` // of the message by which S3 tries out a new notification
		Detail struct {
			Object struct {
				Key string `json:"key"`
			} `json:"object"`
		} `json:"detail"`
		Records []struct {
			Source string `json:"eventSource"`
			S3     struct {
				Object struct {
					Key string `json:"key"`
				} `json:"object"`
			} `json:"s3"`
		} `json:"Records"`
	}
	if json.Unmarshal(payload, &e) != nil {
		return event{trigger: "invoke"}, nil //nolint:nilerr // JSON of another form is somebody's own, and asks for a sync
	}
	switch {
	case e.Source == "aws.events" || e.Source == "aws.scheduler":
		return event{trigger: "schedule"}, nil
	case e.Source == "aws.s3":
		return event{trigger: "config", key: e.Detail.Object.Key}, nil
	case e.Source == bootaws.SourceAdmin:
		return event{trigger: "admin"}, nil
	case e.Source == bootaws.SourceOutbox:
		return event{trigger: outbox}, nil
	case e.Event == "s3:TestEvent":
		return event{trigger: "config"}, nil
	}
	out := event{trigger: "invoke"}
	for _, r := range e.Records {
		if r.Source != "aws:s3" {
			continue
		}
		key, err := url.QueryUnescape(r.S3.Object.Key) // that shape, unlike EventBridge's, has it encoded
		if err != nil {
			return event{}, fmt.Errorf("event: object key: %w", err)
		}
		if out = (event{"config", key}); out.wanted() {
			break
		}
	}
	return out, nil
}
