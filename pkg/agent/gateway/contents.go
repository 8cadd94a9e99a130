package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxParts is how many parts with their own URI an answer to a read may have.
const maxParts = 1000

// checkContents refuses the answer to a read if a part has the URI of another server's resource or
// of a locked item, because a client may cache the part under this URI.
func (s *Session) checkContents(ctx context.Context, from source, uri string, result json.RawMessage) error {
	contents, _ := rawjson.Elements(rawjson.Get(result, "contents")) // clients see no parts in another type
	own, parts := from.server.Config.Name, 0
	for _, content := range contents {
		other := rawjson.Text(rawjson.Get(content, "uri"))
		if other == "" || other == uri {
			continue
		}
		if parts++; parts > maxParts {
			return refuseContents("has more than " + text.Count(maxParts, "part") + " and cannot be checked")
		}
		s.loadGrants(ctx)
		mine, others := s.listedBy(own, other)
		switch {
		case mine >= 0 && s.itemStatus(mine) != lock.None:
			status, j := s.itemLock(mine)
			return s.lockedError(ctx, j, lockState{status: status, note: s.view.Note(j, status)})
		case mine < 0 && others >= 0:
			return refuseContents("holds " + quote(other) + ", which is another server's: " + strconv.Quote(s.view.ID(others).Server))
		}
	}
	return nil
}

// listedBy returns the resource with this URI that the server listed, and the first such resource
// of another server; -1 means none. A tool that names this URI as its page counts as the resource.
func (s *Session) listedBy(server, uri string) (mine, others int) {
	mine, others = -1, -1
	for _, i := range s.view.Apps().Pages[uri] {
		switch {
		case !s.view.Tools().Has(i) || !s.nameable.Has(i):
		case s.view.ID(i).Server == server:
			mine = i
		case others < 0:
			others = i
		}
	}
	for _, srv := range s.view.Servers() {
		i, ok := s.view.Find(tool.ID{Server: srv.Config.Name, Name: uri, Kind: tool.Resource})
		switch {
		case !ok || !s.sel.Resources.Has(i):
		case srv.Config.Name == server:
			mine = i
		case others < 0:
			others = i
		}
	}
	return mine, others
}

func refuseContents(why string) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeUpstream, Message: fmt.Sprintf("The resource was read, but its answer %s. Nothing of it was passed on.", why)}
}
