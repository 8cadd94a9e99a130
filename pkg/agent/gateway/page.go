package gateway

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxPage is the size in bytes after which a page of a list ends. Lambda's limit is 6 MB, and the
// size of a JSON body can double inside a string.
const maxPage = 5 << 19

// cursors is the kind of cursors of an item list. A cursor names the id after which the next page
// begins.
const cursors = "items"

// A listing is a list that the gateway returns in pages.
type listing struct {
	kind   string                                   // name of the items, in plural
	first  string                                   // the gateway's own definition at the start; "": none
	member string                                   // member of the result with the list
	items  iter.Seq[int]                            // in the order of their ids
	name   func(tool.ID) string                     // the name of an item for clients
	entry  func(i int, name string) json.RawMessage // its definition in a list
}

// page returns a page of a list. Two ids can have the same name. The list contains only the first,
// because a call with that name uses the first.
func (s *Session) page(l listing, cursor string) (json.RawMessage, error) {
	at, ok := text.ReadCursor(cursors, cursor, 1)
	if !ok {
		return nil, badCursor(l.kind)
	}
	after := at[0]
	var page bytes.Buffer
	page.WriteString(`{"` + l.member + `":[`)
	names := map[string]bool{}
	last, next, n := "", "", 0
	if after == "" && l.first != "" {
		page.WriteString(l.first)
		n++
	}
	for i := range l.items {
		id := s.view.ID(i)
		name := l.name(id)
		if names[name] {
			continue
		}
		names[name] = true
		if id.String() <= after {
			continue
		}
		definition := l.entry(i, name)
		if last != "" && page.Len()+len(definition) > maxPage {
			next = text.NewCursor(cursors, last)
			break
		}
		if n > 0 {
			page.WriteByte(',')
		}
		page.Write(definition)
		last = id.String()
		n++
	}
	page.WriteByte(']')
	rest, err := rawjson.Encode(struct {
		NextCursor string         `json:"nextCursor,omitempty"`
		TTL        int            `json:"ttlMs"`
		Meta       map[string]any `json:"_meta,omitempty"`
	}{next, directTTL, s.meta()})
	if err != nil {
		return nil, err
	}
	page.WriteByte(',')
	page.Write(rest[1:])
	return page.Bytes(), nil
}

func badCursor(kind string) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Invalid cursor: list the " + kind + " from the start."}
}
