package gateway

import (
	"encoding/json"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits for the prompts and resources of one server in an answer.
const (
	maxShown      = 20
	maxShownBytes = 4 << 10 // of their names and URIs
)

// A kindEntry describes a server's prompts or resources in the answer of upstream_servers get.
type kindEntry struct {
	Callable    int             `json:"callable"`
	URIs        []string        `json:"uris,omitempty"` // of callable resources and templates
	Locked      []lockedItem    `json:"locked,omitempty"`
	Unshown     int             `json:"unshown,omitempty"`     // number of items that are not shown
	Remediation json.RawMessage `json:"remediation,omitempty"` // one text for each status in Locked

	shown int // bytes of names
}

// A lockedItem is one locked prompt or resource.
type lockedItem struct {
	Name   string      `json:"name,omitempty"` // of a prompt
	URI    string      `json:"uri,omitempty"`  // of a resource
	Status lock.Status `json:"status"`
	Note   string      `json:"note,omitempty"`
}

// kindEntry describes a server's prompts or resources. It returns nil if none exist for this
// request.
func (s *Session) kindEntry(srv state.Server, kind tool.Kind, offered tool.Set) *kindEntry {
	var e kindEntry
	there := false
	links := map[lock.Status]string{}
	for i := srv.FirstItem; i < srv.FirstItem+srv.Items; i++ {
		if !offered.Has(i) {
			continue
		}
		there = true
		id := s.view.ID(i)
		status, cause := s.itemLock(i)
		if status == lock.None {
			e.addCallable(id)
			continue
		}
		if !e.addLocked(id, status, s.note(cause, status, s.view.Note(cause, status))) {
			continue
		}
		link := approval.Link(s.g.o.BaseURL, s.view.ID(cause))
		if _, hasLink := links[status]; hasLink && link != "" {
			link = s.g.o.BaseURL + "/admin/tools?kind=" + kind.String() + "&status=" + string(status)
		}
		links[status] = link
	}
	if !there {
		return nil
	}
	e.Remediation = remediations(kind, links, false)
	return &e
}

// hasSpace reports whether the answer has room for name, and counts the name as shown or not shown.
func (e *kindEntry) hasSpace(name string) bool {
	if e.shown+len(name) > maxShownBytes {
		e.Unshown++
		return false
	}
	e.shown += len(name)
	return true
}

func (e *kindEntry) addCallable(id tool.ID) {
	e.Callable++
	switch {
	case id.Kind != tool.Resource: // only the number of prompts is shown: hosts offer prompts to people
	case len(e.URIs) == maxShown:
		e.Unshown++
	case e.hasSpace(id.Name):
		e.URIs = append(e.URIs, id.Name)
	}
}

// addLocked adds a locked item, and reports whether there was room for it.
func (e *kindEntry) addLocked(id tool.ID, status lock.Status, note string) bool {
	if len(e.Locked) == maxShown {
		e.Unshown++
		return false
	}
	if !e.hasSpace(id.Name) {
		return false
	}
	l := lockedItem{Status: status, Note: note}
	if id.Kind == tool.Resource {
		l.URI = text.Clip(id.Name, tool.MaxURI)
	} else {
		l.Name = id.Name
	}
	e.Locked = append(e.Locked, l)
	return true
}

// remediations returns an object with the remediation of each status in links, in the order of
// precedence. It returns nil if links is empty.
func remediations(kind tool.Kind, links map[lock.Status]string, asks bool) json.RawMessage {
	if len(links) == 0 {
		return nil
	}
	var texts rawjson.Object
	for _, status := range lock.Statuses() {
		if link, ok := links[status]; ok {
			text := lock.RemediationOf(kind.String(), status, link)
			if asks && status.UserCanLift() { // only one text of an answer names request_access
				asks = false
				text = strings.Replace(text, "Ask the user", "Call request_access, or ask the user", 1)
			}
			texts.Add(string(status), rawjson.Quote(text))
		}
	}
	return texts.Bytes()
}
