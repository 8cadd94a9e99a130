package decide

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// How long a count of the receivers of alarms is used, how long if it shows a fault, and how long a
// page waits for a count.
const (
	keepReceivers = 10 * time.Minute
	keepFault     = time.Minute
	countTime     = 2 * time.Second
)

// deadAlarms returns a problem if alarms reach nobody, or if the gateway cannot know this.
func (d *Service) deadAlarms(ctx context.Context) (state.Reason, bool) {
	if d.o.AlarmReceivers == nil {
		return state.Reason{}, false
	}
	d.alarms.Lock()
	defer d.alarms.Unlock()
	if now := d.o.Now(); now.After(d.alarms.until) {
		d.countReceivers(ctx, now)
	}
	return d.alarms.reason, d.alarms.reason.Code != ""
}

// countReceivers counts the receivers of alarms, and keeps the result.
func (d *Service) countReceivers(ctx context.Context, now time.Time) {
	waiting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n, err := d.o.AlarmReceivers(waiting)
	if ctx.Err() != nil {
		return // the caller left; the next caller counts
	}
	r := alarmReason(n, err)
	if r.Code == "alarm_topic_unread" {
		cause := slog.Any("error", err)
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "receivers of alarms not counted", cause)
	}
	keep := keepReceivers
	if r.Code != "" {
		keep, r.Since = keepFault, now.UTC()
	}
	if last := d.alarms.reason; last.Code == r.Code {
		r.Since = last.Since
	}
	d.alarms.reason, d.alarms.until = r, now.Add(keep)
}

// alarmReason returns the problem that a count of the receivers shows, or the zero Reason.
func alarmReason(n int, err error) state.Reason {
	switch {
	case errors.Is(err, object.ErrNotFound):
		return state.Reason{
			Code: "alarm_topic_missing", Condition: state.Degraded,
			Message: "The topic of the alarms does not exist, so no alarm reaches anybody.",
			Action: "The operator deploys the stack with the ARN of an existing topic in " +
				"AlarmTopicArn. If the stack made the topic, deploy first with AlarmEmail empty, " +
				"and then with the address again.",
		}
	case err != nil:
		return state.Reason{
			Code: "alarm_topic_unread", Condition: state.OK,
			Message: "The gateway cannot read the topic of the alarms, " +
				"so it does not know whether alarms reach anybody.",
			Action: "The operator looks for \"receivers of alarms not counted\" in the log of the " +
				"admin function. A topic of another account needs a policy that allows " +
				"sns:GetTopicAttributes to the role of the admin function. In a VPC, the function " +
				"needs an endpoint for SNS.",
		}
	case n == 0:
		return state.Reason{
			Code: "alarm_topic_unconfirmed", Condition: state.Degraded,
			Message: "The topic of the alarms has no confirmed subscription, " +
				"so no alarm reaches anybody.",
			Action: "Open the link in the mail that AWS sent to the address of AlarmEmail. " +
				"If there is no such mail, the operator subscribes again: aws sns subscribe " +
				"--topic-arn TOPIC --protocol email --notification-endpoint ADDRESS.",
		}
	}
	return state.Reason{}
}
