package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
)

// A lockInfo says why a tool is locked and what unlocks it. It is the
// _meta["dev.portcullis/lock"] of a blocked call.
type lockInfo struct {
	Name        string      `json:"name"`
	Status      lock.Status `json:"status"`
	Remediation string      `json:"remediation"`
	Note        string      `json:"note,omitempty"`
	Link        string      `json:"link,omitempty"` // only where the user can unlock it
}

func (s *Session) lockInfo(i int, status lock.Status, said string) lockInfo {
	id := s.view.ID(i)
	l := lockInfo{Name: id.String(), Status: status, Note: s.note(i, status, said)}
	if status == lock.DisabledByUser || status == lock.PendingApproval {
		l.Link = approval.Link(s.g.o.BaseURL, id)
	}
	l.Remediation = lock.Remediation(status, l.Link)
	return l
}

// blocked answers the call of a locked tool. Nothing went upstream. said is what a person lets
// agents know about the lock.
func (s *Session) blocked(ctx context.Context, i int, status lock.Status, said string) (json.RawMessage, error) {
	l := s.lockInfo(i, status, said)
	s.g.o.Recorder.Blocked(ctx, l.Name, string(status))
	s.g.o.Log.LogAttrs(ctx, slog.LevelInfo, "call of a locked tool refused",
		slog.String("agent", s.caller.Agent.ID), slog.String("tool", l.Name), slog.String("status", string(status)),
		slog.Any("rules", s.view.Verdict(i).Rules))
	text := "Tool " + strconv.Quote(l.Name) + " is locked: " + string(status) + ".\n" + l.Remediation
	if l.Note != "" {
		text += "\nNote: " + l.Note
	}
	if !s.direct {
		text += "\nretrieve_tools include_disabled:true shows locked tools and why."
	}
	meta := s.meta()
	if meta == nil {
		meta = map[string]any{}
	}
	meta["dev.portcullis/lock"] = l
	return result(text, s.st.Config.Gateway.Locked != "result", meta)
}
