package decide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// Health and each page say that alarms reach nobody. Health also says that the gateway cannot know
// this. The receivers are counted again after some minutes.
func TestDeadAlarms(t *testing.T) {
	denied := errors.New("AuthorizationError for arn:aws:sns:us-east-1:123456789012:alarms")
	gone := fmt.Errorf("topic: %w", object.ErrNotFound)
	for _, c := range []struct {
		code      string // "": no problem
		condition state.Condition
		receivers int
		err       error
		keep      time.Duration // how long the result is used
	}{
		{"", state.OK, 1, nil, 10 * time.Minute},
		{"alarm_topic_missing", state.Degraded, 0, gone, time.Minute},
		{"alarm_topic_unconfirmed", state.Degraded, 0, nil, time.Minute},
		{"alarm_topic_unread", state.OK, 0, denied, time.Minute},
	} {
		f, counts := newFixture(t), 0
		receivers, err := c.receivers, c.err
		f.Decide.AlarmReceivers = func(context.Context) (int, error) {
			counts++
			return receivers, err
		}
		f.Open()
		f.service = f.Console.Service
		got := f.service.Health(f.ctx)
		var codes []string
		for _, r := range got.Reasons {
			codes = append(codes, r.Code)
			if r.Action == "" || r.Since.IsZero() || strings.Contains(r.Message+r.Action, "arn:") {
				t.Errorf("%s: %+v", c.code, r)
			}
		}
		if strings.Join(codes, " ") != c.code || got.Status != c.condition {
			t.Errorf("%s: health is %s: %q", c.code, got.Status, codes)
		}
		if n := len(f.service.Notices(f.ctx)); n > 0 != (c.condition == state.Degraded) {
			t.Errorf("%s: %d notices", c.code, n)
		}
		if logged := strings.Contains(f.Log.String(), denied.Error()); logged != errors.Is(
			c.err,
			denied,
		) {
			t.Errorf("%s: the log has the cause: %v", c.code, logged)
		}
		f.Clock.Wait(c.keep - time.Second)
		if f.service.Health(f.ctx); counts != 1 {
			t.Errorf("%s: %d counts within %v", c.code, counts, c.keep)
		}
		receivers, err = 1, nil
		f.Clock.Wait(2 * time.Second)
		got = f.service.Health(f.ctx)
		if counts != 2 || len(got.Reasons) > 0 || got.Status != state.OK {
			t.Errorf("%s: after %d counts, health is %+v", c.code, counts, got)
		}
	}
}
