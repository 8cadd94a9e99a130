package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
)

// An event is the cause of a run.
type event struct {
	trigger string // schedule, config, admin, outbox or invoke
	key     string // of the changed object, or ""
}

// outbox is the trigger for a new notice in the outbox: the function sends it, and does not sync.
const outbox = "outbox"

// configPrefix is the prefix of the objects whose changes start a sync. A sync writes objects with
// other prefixes, because its own writes must not start another sync.
const configPrefix = "config/"

// asksSync reports whether the event requests a sync.
func (e event) asksSync() bool {
	return e.trigger != "config" || strings.HasPrefix(e.key, configPrefix)
}

// parseEvent reads an event of the schedule, of another function, or of an object in the format of
// EventBridge or S3. Any other JSON is the payload of a direct invocation.
func parseEvent(payload []byte) (event, error) {
	if len(payload) == 0 {
		return event{trigger: "invoke"}, nil
	}
	if !json.Valid(payload) {
		return event{}, errors.New("event is not JSON")
	}
	var e struct {
		Source string `json:"source"`
		Event  string `json:"Event"` // set in the message with which S3 tests a new notification
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
		return event{trigger: "invoke"}, nil //nolint:nilerr // other JSON requests a sync
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
		// S3's format encodes the key, EventBridge's does not
		key, err := url.QueryUnescape(r.S3.Object.Key)
		if err != nil {
			return event{}, fmt.Errorf("event: object key: %w", err)
		}
		if out = (event{"config", key}); out.asksSync() {
			break
		}
	}
	return out, nil
}
