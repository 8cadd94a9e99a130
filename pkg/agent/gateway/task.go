package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A server of the stateless protocol may answer a call with a task, whose result comes later. The
// client gets the task with a handle instead of the server's id, and polls it. The gateway stores
// nothing about a task: the handle is the sealed id, with the caller, the tool and its definition.

const (
	taskTime  = 7 * 24 * time.Hour // how long a handle is valid
	maxTaskID = 1 << 10            // bytes of a server's id: clients repeat its handle in a header
)

// A taskHandle is the content of the handle of a task.
type taskHandle struct {
	Bound   []byte    `json:"b"` // from taskHash
	Tool    string    `json:"t"` // id of the tool
	Hash    tool.Hash `json:"h"` // of the called definition
	Task    string    `json:"k"` // the server's id of the task
	Expires int64     `json:"e"` // Unix time

	Confirmed bool `json:"c,omitempty"` // a person has confirmed the call
}

// taskHash returns a hash of a server and a caller. A request about a task must have the same hash
// as the call.
func taskHash(t upstream.Target, owner session.Owner) []byte {
	sum := session.Hash(append([]string{t.ID, t.URL}, owner.Parts()...)...)
	return sum[:]
}

// Texts about a call that its server continues as a task.
const (
	taskNeeded = "The tool runs only as a task, and its server refused the call, " +
		"because your client has not declared the extension " + mcp.ExtensionTasks + ". " +
		"Call it with a client that supports tasks, or continue without it."
	taskNeededKey = "The tool runs only as a task, and its server refused the call, because " +
		"this gateway has no key to pass tasks on: its operator must set PORTCULLIS_SEAL_KEY."

	taskBegun    = "The tool's server began a task, but "
	taskUnwanted = taskBegun + "your client has not declared that it can wait for one. "
	taskOdd      = taskBegun + "the gateway does not know the form of its answer. "
	taskLongID   = taskBegun + "its id is too long to pass on. "
	taskNoKey    = taskBegun + "the gateway cannot read its key to pass it on. "

	taskCancelled = "The gateway asked the server to cancel the task. " + sideEffects
	taskAdrift    = "The gateway could not cancel the task, so it may still run. " + sideEffects
)

// acceptsTasks reports whether the answer to the caller can be a task.
func (s *Session) acceptsTasks() bool {
	return s.offersTasks() && mcp.HasExtension(s.client.Capabilities, mcp.ExtensionTasks)
}

// isTask reports whether the result of a call is a task. A quick check skips most results.
func isTask(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte(`"`+mcp.ResultTask+`"`)) &&
		rawjson.Text(rawjson.Get(raw, "resultType")) == mcp.ResultTask
}

// The members of a task that the gateway passes on, in addition to its handle and the member of its
// status.
var taskMembers = []string{
	"status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta",
}

// taskDetails are the statuses of a task, with the member that tasks/get adds; "": none.
var taskDetails = map[string]string{
	"working": "", "input_required": "inputRequests",
	"completed": "result", "failed": "error", "cancelled": "",
}

// A task is a task as its server describes it.
type task struct {
	members rawjson.Object // each name once
	status  string
	id      string // the server's id
}

// readTask reads the task in the answer to tasks/get, or if begins is set, to a call. It keeps only
// the members that belong to the answer. It reports whether the answer is a task.
func readTask(raw json.RawMessage, begins bool) (t task, ok bool) {
	o, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return t, false
	}
	for _, name := range taskMembers {
		if v := o.Get(name); v != nil {
			t.members.Add(name, v)
		}
	}
	t.status, t.id = rawjson.Text(o.Get("status")), rawjson.Text(o.Get("taskId"))
	detail, ok := taskDetails[t.status]
	if ok && detail != "" && !begins {
		v := o.Get(detail)
		ok = len(v) > 0 && v[0] == '{'
		t.members.Add(detail, v)
	}
	return t, ok && t.id != ""
}

// isOver reports whether a task has ended.
func (t task) isOver() bool { return t.status != "working" && t.status != "input_required" }

// sealTask returns the result of a call for the client: if it is a task, with a handle instead of
// the server's id. If the client cannot get the task, sealTask cancels it.
func (s *Session) sealTask(
	ctx context.Context, i int, t upstream.Target, c upstream.Call, raw json.RawMessage,
) (json.RawMessage, error) {
	if !isTask(raw) {
		return raw, nil
	}
	begun, ok := readTask(raw, true)
	var why, handle string
	switch {
	case !ok:
		why = taskOdd
	case !c.Tasks:
		why = taskUnwanted
	case len(begun.id) > maxTaskID:
		why = taskLongID
	default:
		handle = s.sealHandle(ctx, taskHandle{
			Bound: taskHash(t, c.Owner), Tool: s.view.ID(i).String(),
			Hash: s.view.Tool(i).Definition.Hash, Task: begun.id,
			Confirmed: s.confirm.grant != "",
		})
		why = taskNoKey
	}
	if handle == "" {
		if s.cancelTask(ctx, t, c, begun.id) {
			return nil, &inputError{why + taskCancelled}
		}
		return nil, &inputError{why + taskAdrift}
	}
	s.event.Outcome = audit.Task
	begun.members.Add("taskId", rawjson.Quote(handle))
	begun.members.Add("resultType", rawjson.Quote(mcp.ResultTask))
	return begun.members.Bytes(), nil
}

// sealHandle returns the text of a handle, or "" if the gateway has no key.
func (s *Session) sealHandle(ctx context.Context, h taskHandle) string {
	h.Expires = s.g.o.Now().Add(taskTime).Unix()
	plain, err := rawjson.Encode(h)
	if err != nil { // texts and numbers cannot fail
		return ""
	}
	sealed, err := s.g.o.Sealer.Seal(ctx, seal.Task, plain)
	if err != nil {
		s.g.logNoKey(ctx, err)
	}
	return sealed
}

// cancelTask asks a server to cancel a task that no client can cancel, and reports whether the
// server acknowledged that.
func (s *Session) cancelTask(
	ctx context.Context, t upstream.Target, c upstream.Call, id string,
) bool {
	if id == "" {
		return false
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), approvalTime)
	defer end()
	capabilities := []byte(`{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`)
	_, err := s.g.up.Call(ctx, t, upstream.Call{
		Owner: c.Owner, Method: mcp.MethodCancelTask, Name: id, Tasks: true,
		Meta: rawjson.Object{{Name: mcp.MetaClientCapabilities, Value: capabilities}},
	})
	return err == nil
}

// taskRefusal returns the error of a call that its server refused because the server needs a client
// that supports tasks. It returns any other error unchanged.
func (s *Session) taskRefusal(err error) error {
	rpc, ok := errors.AsType[*outcome.RPCError](err)
	if !ok || rpc.Code != mcp.CodeMissingCapability {
		return err
	}
	required := rawjson.Get(rpc.Data, "requiredCapabilities")
	switch declared := mcp.HasExtension(s.client.Capabilities, mcp.ExtensionTasks); {
	case !mcp.HasExtension(required, mcp.ExtensionTasks), s.acceptsTasks():
		return err
	case declared && s.caller.Modern:
		return &inputError{taskNeededKey}
	case s.caller.Modern:
		return mcp.LacksExtension(mcp.ExtensionTasks, taskNeeded)
	}
	return &inputError{taskNeeded}
}
