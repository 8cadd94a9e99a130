package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxLogged is how many characters of a name the log contains: URIs may be long.
const maxLogged = 300

// A lockInfo explains why a tool is locked and what unlocks it. The result of a refused call has it
// as _meta["dev.portcullis/lock"].
type lockInfo struct {
	Name        string       `json:"name"`
	Status      lock.Status  `json:"status"`
	Remediation string       `json:"remediation"`
	Note        string       `json:"note,omitempty"`
	Link        string       `json:"link,omitempty"` // only if the user can act there
	Request     *openRequest `json:"request,omitempty"`
	Confirm     *confirmInfo `json:"confirm,omitempty"` // each call needs a person

	more []string // further sentences of the text
}

func (s *Session) lockInfo(i int, status lock.Status, note string) lockInfo {
	id := s.view.ID(i)
	l := lockInfo{Name: id.String(), Status: status, Note: s.note(i, status, note)}
	if status.UserCanLift() {
		l.Link = approval.Link(s.g.o.BaseURL, id)
	}
	l.Remediation = lock.RemediationOf(id.Kind.String(), status, l.Link)
	return l
}

// text returns the whole text about a locked item of a kind.
func (l lockInfo) text(kind tool.Kind) string {
	text := map[tool.Kind]string{tool.Tool: "Tool", tool.Prompt: "Prompt", tool.Resource: "Resource"}[kind] + " " + strconv.Quote(l.Name) + " is locked: " + string(l.Status) + ".\n" + l.Remediation
	if l.Note != "" {
		text += "\nNote: " + l.Note
	}
	for _, line := range l.more {
		text += "\n" + line
	}
	return text
}

// refusal returns the error for a request for a locked prompt or resource.
func (l lockInfo) refusal(kind tool.Kind) error {
	data, err := rawjson.Encode(l)
	if err != nil {
		return err
	}
	return &mcp.Error{Code: mcp.CodeLocked, Message: l.text(kind), Data: data}
}

// lockedTool returns the result of a refused call of the locked tool i. If the listed tool has an
// output schema, the result is always an error, because clients refuse other results that do not
// match the schema.
func (s *Session) lockedTool(i int, text string, l lockInfo) (json.RawMessage, error) {
	return s.lockResult(text, l, s.direct && s.view.Tool(i).Definition.OutputSchema != nil)
}

// lockedResult returns the result of a call that a lock refuses.
func (s *Session) lockedResult(text string, l any) (json.RawMessage, error) {
	return s.lockResult(text, l, false)
}

func (s *Session) lockResult(text string, l any, failed bool) (json.RawMessage, error) {
	meta := s.meta()
	if meta == nil {
		meta = map[string]any{}
	}
	meta["dev.portcullis/lock"] = l
	return result(text, failed || s.st.Config.Gateway.Locked != "result", meta)
}

// countLocked counts and logs a request for a locked item.
func (s *Session) countLocked(ctx context.Context, l lockInfo, verdict policy.Verdict) {
	s.event.Lock(string(l.Status), verdict.Rules)
	s.event.Counts.Blocked = observe.Target{Name: l.Name, By: string(l.Status)}
	s.g.o.Log.LogAttrs(ctx, slog.LevelInfo, "call of a locked tool refused",
		slog.String("agent", s.caller.Agent.ID), slog.String("tool", text.Clip(l.Name, maxLogged)), slog.String("status", string(l.Status)),
		slog.Any("rules", verdict.Rules))
}
