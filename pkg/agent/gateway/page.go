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

// maxPage is the size in bytes after which a page of a list ends. The limit of Lambda is 6 MB, and
// a JSON body inside a string can grow to twice its size.
const maxPage = 5 << 19

// cursors is the kind of cursors of an item list. A cursor names the id after which the next page
// begins.
const cursors = "items"

// A listing is a list that is answered in pages.
type listing struct {
	kind   string                                   // name of the items, in plural
	first  string                                   // the gateway's own definition at the start; "": none
	member string                                   // member of the result with the list
	items  iter.Seq[int]                            // in the order of their ids
	name   func(tool.ID) string                     // the name of an item for clients
	entry  func(i int, name string) json.RawMessage // its definition in a list
}

// page returns a page of a list. Two ids can have the same name. The list has only the first, which
// is also the tool or prompt that the name calls.
func (s *Session) page(l listing, cursor string) (json.RawMessage, error) {
	at, ok := text.ReadCursor(cursors, cursor, 1)
	if !ok {
		return nil, badCursor(l.kind)
	}
	after := at[0]
	var page bytes.Buffer
	page.WriteString(`{"` + l.member + `":[`)
	named := map[string]bool{}
	last, next, n := "", "", 0
	if after == "" && l.first != "" {
		page.WriteString(l.first)
		n++
	}
	for i := range l.items {
		id := s.view.ID(i)
		name := l.name(id)
		if named[name] {
			continue
		}
		named[name] = true
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
