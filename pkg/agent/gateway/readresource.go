package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// readResource is the tool that reads resources. It is for models whose host offers no other way to
// read resources.
const readResource = "read_resource"

// readable reports whether there is a resource that a read_resource call of this session may read.
func (s *Session) readable() bool {
	for range s.callable(s.sel.Resources) {
		return true
	}
	return s.unlisted() != nil
}

// callReadResource answers read_resource.
func (s *Session) callReadResource(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "server", "uri")
	name := a.text("server", true, "the name of a server as upstream_servers gives it")
	uri := a.text("uri", true, "the URI of one of its resources")
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	if !slices.ContainsFunc(s.servers(), func(srv state.Server) bool { return srv.Config.Name == name }) {
		s.event.Decide(audit.Scope, "")
		return s.refuse(unknownServer(name))
	}
	raw, err := s.read(ctx, name, mcp.Request{Method: mcp.MethodReadResource, URI: uri, Meta: r.Meta, Rest: r.Rest})
	if err != nil {
		return s.readFailure(err)
	}
	if rawjson.Text(rawjson.Get(raw, "resultType")) == mcp.ResultInputRequired {
		return raw, nil
	}
	return asBlocks(uri, raw, s.meta())
}

// readFailure returns the answer of a read_resource call that read nothing. If the model
// should read the text and act on it, the answer is a result and not an error.
func (s *Session) readFailure(err error) (json.RawMessage, error) {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Status != 0 {
		return nil, err
	}
	_, upstream := errors.AsType[*outcome.RPCError](e.Err)
	switch {
	case upstream:
		return s.refuse("The server answered with error " + strconv.Itoa(e.Code) + ": " + text.Clip(e.Message, maxText))
	case e.Code == mcp.CodeLocked:
		return s.lockedResult(e.Message+"\nupstream_servers with the name of a server shows what of it is locked, and why.", e.Data)
	case e.Code == mcp.CodeUpstream && e.Data != nil:
		meta := map[string]any{upstreamKey: e.Data}
		maps.Copy(meta, s.meta())
		return result(e.Message, true, meta)
	}
	return s.refuse(e.Message)
}

// asBlocks converts the result of a read to a tool result. Texts become text blocks, because most
// hosts show only text to a model.
func asBlocks(uri string, raw json.RawMessage, meta map[string]any) (json.RawMessage, error) {
	contents, _ := rawjson.Elements(rawjson.Get(raw, "contents")) // if contents is not a list, there are no parts
	blocks := []json.RawMessage{}
	for _, content := range contents {
		o, err := rawjson.Split(content, rawjson.Lenient)
		if err != nil {
			continue
		}
		if own := rawjson.Text(o.Get("uri")); own != uri && own != "" && o.Get("text") != nil {
			blocks = append(blocks, block("text", rawjson.Member{Name: "text", Value: rawjson.Quote(own + ":")}))
		}
		blocks = append(blocks, blockOf(content, o))
	}
	if len(blocks) == 0 {
		blocks = append(blocks, block("text", rawjson.Member{Name: "text", Value: rawjson.Quote("The resource is empty.")}))
	}
	return rawjson.Encode(struct {
		Content []json.RawMessage `json:"content"`
		Meta    map[string]any    `json:"_meta,omitempty"`
	}{blocks, meta})
}

// blockOf returns the content block for one part of a resource.
func blockOf(raw json.RawMessage, part rawjson.Object) json.RawMessage {
	media, _, _ := strings.Cut(rawjson.Text(part.Get("mimeType")), "/")
	switch {
	case part.Get("text") != nil:
		return block("text", rawjson.Member{Name: "text", Value: part.Get("text")})
	case part.Get("blob") != nil && (media == "image" || media == "audio"):
		return block(media, rawjson.Member{Name: "data", Value: part.Get("blob")}, rawjson.Member{Name: "mimeType", Value: part.Get("mimeType")})
	}
	return block("resource", rawjson.Member{Name: "resource", Value: raw})
}

func block(kind string, members ...rawjson.Member) json.RawMessage {
	return append(rawjson.Object{{Name: "type", Value: rawjson.Quote(kind)}}, members...).Bytes()
}
