package mcphttp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

const (
	maxTasks  = 32              // of one subscription
	usualPoll = 5 * time.Second // the interval between polls of a task, if its server gives none
	maxPoll   = time.Minute
)

// A watchedTask is a task whose changes a subscription reports. The gateway polls the task like a
// client: each poll passes the same locks as a request for the task.
type watchedTask struct {
	handle string
	next   time.Time // of the next poll
	state  contents  // hash of the last reported state
}

// A taskState is the answer to a poll.
type taskState struct {
	*watchedTask
	raw json.RawMessage
	err error
}

// watchTasks returns the tasks that the caller may read.
func (h *handler) watchTasks(r *http.Request, q *request, handles []string) (all []*watchedTask) {
	for _, handle := range handles {
		if _, err := h.pollTask(r.Context(), r, q, handle, true); err == nil {
			all = append(all, &watchedTask{handle: handle})
		}
	}
	return all
}

// pollTask reads a task. The audit has a line if the caller gets the end of the task, or if the
// poll is refused. If checks is set, the caller does not get the answer.
func (h *handler) pollTask(
	ctx context.Context, r *http.Request, q *request, handle string, checks bool,
) (json.RawMessage, error) {
	e := &audit.CallEvent{Line: audit.Line{Method: mcp.MethodGetTask}}
	s, err := h.session(ctx, r, q, e)
	if err != nil {
		return nil, err
	}
	m := mcp.Request{Method: mcp.MethodGetTask, Params: true, Task: handle, Meta: q.msg.Meta}
	raw, err := h.answerTask(ctx, q, s, m)
	if isRefusal(err) || err == nil && !e.Routine && !checks {
		h.keep(r, q, e, err != nil)
	}
	return raw, err
}

// isRefusal reports whether err says that the caller may not read a task, now or later. Otherwise
// the next poll may succeed.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	return ok && e.Code != mcp.CodeUpstream
}

// startPolls polls the tasks that are due, one after the other, and returns their states. It
// returns nil if no task is due.
func (h *handler) startPolls(
	ctx context.Context, r *http.Request, q *request, s *notifyStream,
) <-chan taskState {
	due, now := []*watchedTask{}, time.Now()
	for _, t := range s.tasks {
		if !t.next.After(now) {
			due = append(due, t)
		}
	}
	if len(due) == 0 {
		return nil
	}
	states := make(chan taskState)
	go func() {
		defer close(states)
		for _, t := range due {
			raw, err := h.pollTask(ctx, r, q, t.handle, false)
			select {
			case states <- taskState{t, raw, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return states
}

// tellTask reports the state of a task, if it has changed. It forgets a task that has ended, or
// that the caller may not read any more.
func (s *notifyStream) tellTask(now taskState) {
	now.next = time.Now().Add(usualPoll)
	if now.err != nil {
		if isRefusal(now.err) {
			s.forgetTask(now.watchedTask)
		}
		return
	}
	o, err := rawjson.Split(now.raw, rawjson.Lenient)
	if err != nil {
		return
	}
	if ms, err := strconv.Atoi(string(o.Get("pollIntervalMs"))); err == nil {
		every := min(time.Duration(ms)*time.Millisecond, maxPoll)
		now.next = time.Now().Add(max(every, lookEvery))
	}
	if sum := contents(sha256.Sum256(now.raw)); sum != now.state {
		now.state = sum
		o.Delete("resultType")
		o.Delete("_meta")
		s.out.event(notification(mcp.NotificationTask, append(s.meta(), o...)))
	}
	switch rawjson.Text(o.Get("status")) {
	case "working", "input_required":
	default:
		s.forgetTask(now.watchedTask)
	}
}

func (s *notifyStream) forgetTask(t *watchedTask) {
	s.tasks = slices.DeleteFunc(s.tasks, func(o *watchedTask) bool { return o == t })
}
