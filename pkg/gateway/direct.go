package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxPage is the size in bytes after which a page of tools/list ends. Lambda takes
// 6 MB, and a JSON body that is put into a string can grow to twice its size.
const maxPage = 5 << 19

// directName returns the name of a tool in direct mode.
func (s *Session) directName(id tool.ID) string {
	if s.bare {
		return id.Name
	}
	return id.Direct()
}

// listDirect returns a page of the callable tools themselves, in the order of
// their ids. Two ids can have one name; only the first is listed, which is the
// one that a call of the name reaches.
func (s *Session) listDirect(cursor string) (json.RawMessage, error) {
	after, ok := readCursor(cursor)
	if !ok {
		return nil, badCursor()
	}
	var page bytes.Buffer
	page.WriteString(`{"tools":[`)
	named := map[string]bool{}
	last, next, n := "", "", 0
	callable, _ := s.split()
	for i := range callable.All() {
		id := s.view.ID(i)
		name := s.directName(id)
		if named[name] {
			continue
		}
		named[name] = true
		if id.String() <= after {
			continue
		}
		definition := present(s.view.Tool(i).Definition, name, s.view.Hints(i))
		if n > 0 && page.Len()+len(definition) > maxPage {
			next = writeCursor(last)
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

// DeclaresOutput reports whether the definition that tools/list gives of a tool has an output
// schema. The six tools of search mode have none.
func (s *Session) DeclaresOutput(name string) bool {
	if !s.direct || s.down {
		return false
	}
	i, ok := s.findDirect(name)
	return ok && s.view.Tool(i).Definition.OutputSchema != nil
}

// findDirect returns the number of the tool that a name in direct mode stands for: the
// first callable one, else the first locked one.
func (s *Session) findDirect(name string) (int, bool) {
	first, ok := 0, false
	for _, i := range s.named(name) {
		if s.view.Status(i) == lock.None {
			return i, true
		}
		if !ok {
			first, ok = i, true
		}
	}
	return first, ok
}

// named returns the tools that have this name in direct mode, in the order of their ids.
func (s *Session) named(name string) []int {
	var out []int
	add := func(id tool.ID) {
		if i, ok := s.find(id); ok && s.directName(id) == name {
			out = append(out, i)
		}
	}
	if s.bare {
		for _, srv := range s.view.Servers() {
			add(tool.ID{Server: srv.Config.Name, Name: name})
		}
		return out
	}
	ids, cut := tool.ParseDirect(name)
	for _, id := range ids {
		add(id)
	}
	if len(out) == 0 && cut {
		for i := range s.sel.Tools.All() { // a name that was cut does not say where it came from
			if s.directName(s.view.ID(i)) == name {
				out = append(out, i)
			}
		}
	}
	slices.Sort(out)
	return out
}

// A cursor is the id after which the next page begins, so that it stays right
// when tools come and go.
const cursorMark = "after:"

func writeCursor(id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + id))
}

func readCursor(cursor string) (after string, ok bool) {
	if cursor == "" {
		return "", true
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(raw), cursorMark)
}
