package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// Texts about requests for a task.
const (
	taskUndeclared = "The client has not declared the extension " + mcp.ExtensionTasks + "."
	taskUnknown    = "Unknown task: its id is not one that this gateway gave to this agent and " +
		"user for a tool that it can see. Nothing was sent to a server."
	taskExpired = "The id of this task has expired: it was valid for 7 days. " +
		"Nothing was sent to a server."
	taskKeyless = "The gateway cannot read its key for this id. Nothing was sent to a server. " +
		"Send the same request again shortly."
	taskGone = "The tool's server does not know this task any more. " +
		"It may have ended or expired. " + sideEffects
	taskUnclear = "The tool's server answered in a form that this gateway does not know. " +
		taskCancels
	taskAsksOff = "The task asks for input, but the gateway's operator does not allow that. " +
		taskCancels
	taskUnanswered = "The gateway's operator does not allow answers to questions of this server. " +
		"Nothing was sent to it."

	taskUnconfirmed = "A person must confirm each call of this tool now, and nobody confirmed " +
		"the call of this task. " + taskCancels
	taskCancels = "The task may still run: " + mcp.MethodCancelTask + " ends it."
	taskChanged = " has changed since the task began, so its result is not passed on. " +
		taskCancels
)

// AnswerTask answers tasks/get, tasks/update and tasks/cancel. The request r comes from
// [mcp.Parse], which has checked it. c is its client. The answer to tasks/get has the result of the
// task with its original bytes. An error is an [*mcp.Error], or says that ctx ended.
func (s *Session) AnswerTask(
	ctx context.Context, r mcp.Request, c mcp.Client,
) (json.RawMessage, error) {
	s.client = c
	s.begin("")
	answers := r.Rest.Get(inputResponses)
	if r.Method == mcp.MethodUpdateTask {
		s.event.SetArguments(answers)
	}
	switch {
	case !s.offersTasks():
		return nil, methodNotFound()
	case !s.acceptsTasks():
		return nil, mcp.LacksExtension(mcp.ExtensionTasks, taskUndeclared)
	case s.down:
		return nil, notReadyError(s.st.Health)
	}
	if refused := missingMember(r); refused != nil {
		return nil, refused
	}
	if r.Method == mcp.MethodUpdateTask && (answers == nil || answers[0] != '{') {
		return nil, &mcp.Error{
			Code: mcp.CodeInvalidParams, Message: "params.inputResponses must be an object",
		}
	}
	if fault := s.checkAudit(ctx); fault != nil {
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: unauditedText(fault), Err: fault}
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTime())
	defer cancel()
	raw, err := s.answerTask(ctx, r, answers)
	if _, rpc := errors.AsType[*mcp.Error](err); !rpc && errors.Is(err, context.DeadlineExceeded) {
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: ranOut, Err: err}
	}
	return raw, err
}

func (s *Session) answerTask(
	ctx context.Context, r mcp.Request, answers json.RawMessage,
) (json.RawMessage, error) {
	h, err := s.openTask(ctx, r.Task)
	if err != nil {
		return nil, err
	}
	i, ok := s.findNamed(h.Tool)
	if !ok {
		return nil, s.unknownTask()
	}
	server := s.view.Server(i)
	t := catalog.Target(server.Config, server.Outcome)
	switch {
	case !bytes.Equal(taskHash(t, s.owner()), h.Bound): // another caller, or another address
		return nil, s.unknownTask()
	case s.g.o.Now().Unix() > h.Expires:
		s.event.Refuse()
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: taskExpired}
	}
	s.event.Tool, s.event.Definition = h.Tool, h.Hash
	now := s.lockState(ctx, i)
	if err := s.checkTask(ctx, i, h, now, r.Method == mcp.MethodCancelTask); err != nil {
		return nil, err
	}
	if r.Method == mcp.MethodUpdateTask && t.Asks == upstream.AsksOff {
		s.event.Refuse()
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: taskUnanswered}
	}
	s.event.Allow(h.Hash)
	c := upstream.Call{
		Owner: s.owner(), Method: r.Method, Name: h.Task, Tasks: true, Meta: r.Meta,
		Traceparent: s.caller.Traceparent, Retry: r.Method != mcp.MethodUpdateTask,
	}
	if r.Method == mcp.MethodUpdateTask {
		c.Rest.Add(inputResponses, answers)
	}
	raw, err := s.requestTask(now.withConnection(ctx), t, c)
	switch {
	case err != nil:
		return nil, s.taskFailure(ctx, server.Config.Name, err)
	case r.Method == mcp.MethodGetTask:
		return s.showTask(t, r.Task, raw)
	}
	return json.RawMessage("{}"), nil
}

// requestTask sends a request about a task. A stop of the server or the agent cancels the request,
// unless the request cancels the task.
func (s *Session) requestTask(
	ctx context.Context, t upstream.Target, c upstream.Call,
) (json.RawMessage, error) {
	if c.Method == mcp.MethodCancelTask {
		return s.request(ctx, t, c)
	}
	return s.callServer(ctx, t, c)
}

// openTask reads the handle that a client sent.
func (s *Session) openTask(ctx context.Context, handle string) (h taskHandle, err error) {
	plain, err := s.g.o.Sealer.Open(ctx, seal.Task, handle)
	if errors.Is(err, seal.ErrNoKey) {
		s.g.logNoKey(ctx, err)
		return h, &mcp.Error{Code: mcp.CodeUpstream, Message: taskKeyless, Err: err}
	}
	if err != nil || json.Unmarshal(plain, &h) != nil {
		return taskHandle{}, s.unknownTask()
	}
	return h, nil
}

// unknownTask returns the refusal of a handle that is not for this caller. It does not say whether
// the task exists.
func (s *Session) unknownTask() error {
	s.event.Decide(audit.Scope, "")
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: taskUnknown}
}

// checkTask refuses a request about the task of a tool that is locked now, or that the agent may
// not call any more. If cancels is set, it refuses only if the agent is stopped or the tool's state
// is unknown: to end a task needs no approval.
func (s *Session) checkTask(
	ctx context.Context, i int, h taskHandle, now lockState, cancels bool,
) error {
	id, tier := s.view.ID(i), s.view.Tier(i)
	switch {
	case now.refuse != nil:
		return now.refuse
	case now.status == lock.DisabledUnknown, now.status != lock.None && !cancels:
		if err := ctx.Err(); err != nil {
			return err
		}
		l, _ := s.lockOf(ctx, i, now)
		if !cancels {
			l.more = append(l.more, taskCancels)
		}
		s.countLocked(ctx, l, s.view.Verdict(i))
		return l.refusal(tool.Tool)
	case cancels:
		return nil
	case s.view.Tool(i).Definition.Hash != h.Hash:
		s.event.Refuse()
		return &mcp.Error{
			Code:    mcp.CodeLocked,
			Message: "The definition of the tool " + strconv.Quote(id.String()) + taskChanged,
		}
	case s.view.Confirmed().Has(i) && !h.Confirmed:
		s.event.Refuse()
		return &mcp.Error{Code: mcp.CodeLocked, Message: taskUnconfirmed}
	case !slices.Contains(s.caller.Agent.Tiers, tier):
		return s.outOfTier(tier, tierText(id, tier))
	}
	if o, ok := s.recentFailure(s.view.Server(i)); ok {
		s.event.Allow(h.Hash)
		s.event.Outcome = string(o.Status)
		return FailedTask(id.Server, &outcome.CallError{Outcome: o})
	}
	return nil
}

// showTask returns the answer to tasks/get for the client, with the client's handle.
func (s *Session) showTask(
	t upstream.Target, handle string, raw json.RawMessage,
) (json.RawMessage, error) {
	now, ok := readTask(raw, false)
	questions := now.members.Get("inputRequests")
	switch {
	case !ok:
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: taskUnclear}
	case questions != nil && t.Asks == upstream.AsksOff:
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: taskAsksOff}
	}
	if refused := mcp.Undeclared(questions, s.client.Capabilities); refused != nil {
		return nil, refused
	}
	s.event.Routine = !now.isOver()
	now.members.Add("taskId", rawjson.Quote(handle))
	return now.members.Bytes(), nil
}

// taskFailure returns the client's error for a request about a task that failed.
func (s *Session) taskFailure(ctx context.Context, server string, err error) error {
	if refused, ok := errors.AsType[*inputError](err); ok {
		return &mcp.Error{Code: mcp.CodeUpstream, Message: refused.text}
	}
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok &&
		(rpc.Code == mcp.CodeInvalidParams || rpc.Code == mcp.CodeMethodNotFound) {
		return &mcp.Error{
			Code:    mcp.CodeInvalidParams,
			Message: taskGone,
			Err:     err,
		} // the server's text has its own id
	}
	failure, err := s.failure(ctx, server, err)
	if err != nil {
		return err
	}
	return FailedTask(server, failure)
}

// FailedTask returns the error for a request about a task that its server did not answer, like
// [FailedItem].
func FailedTask(server string, e *outcome.CallError) *mcp.Error {
	return failedItem(server, outcome.ItemTask, e)
}
