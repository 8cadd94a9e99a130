// Package lockfile reads, writes and compares approvals.lock.json, the file of approved definitions
// that is reviewed and merged like code.
//
// The file contains hashes, not definitions. It approves exactly the definitions that a person saw
// at a gateway. [Compare] checks whether a gateway still has them, and [Markdown] shows them to the
// people who review a change of the file. The shown texts come from servers, which may be hostile,
// so Markdown escapes them.
package lockfile

import (
	"maps"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Name is the default name of the file.
const Name = "approvals.lock.json"

// version is the version of the format that this program reads and writes.
const version = 1

const (
	schemaURL  = "https://raw.githubusercontent.com/portcullis-mcp/portcullis/main/docs/approvals.lock.schema.json"
	maxSummary = 200 // characters
)

// A File is the entries of a file, by item.
type File map[tool.ID]Entry

// An Entry is one definition.
type Entry struct {
	Hash    tool.Hash
	Summary string // first line of the description, for the readers of the file
	// The definition waited for approval when the file was written. A merge of the file approves
	// it.
	Pending bool
	// Note of the approval. A definition with a severe finding is approved only with a note.
	Note string
}

// Summary returns the first sentence of a description as the file stores it: on one line, and
// clipped. The argument may also be that first sentence.
func Summary(description string) string {
	return text.Clip(text.Line(tool.FirstSentence(description)), maxSummary)
}

// clean returns e as the file stores it.
func (e Entry) clean() Entry {
	e.Summary = text.Clip(text.Line(e.Summary), maxSummary)
	if text.Blank(e.Note) {
		e.Note = ""
	}
	return e
}

// The types below are the written form of the file. [File.Bytes] writes them, and its JSON Schema
// is generated from them.

// A document is the whole file.
type document struct {
	Schema  string                     `json:"$schema,omitempty" jsonschema_description:"The JSON Schema of this file, for editors. No program reads it."`
	Version int                        `json:"version" jsonschema:"enum=1" jsonschema_description:"Version of the format."`
	Servers map[string]*documentServer `json:"servers" jsonschema_description:"What is approved of each server, by its name in mcp_config.json."`
}

// A documentServer is the approved definitions of one server.
type documentServer struct {
	Tools     map[string]documentEntry `json:"tools,omitempty" jsonschema_description:"Tools by name."`
	Prompts   map[string]documentEntry `json:"prompts,omitempty" jsonschema_description:"Prompts by name."`
	Resources map[string]documentEntry `json:"resources,omitempty" jsonschema_description:"Resources by URI, templates of them by URI template."`
}

// A documentEntry is one definition.
type documentEntry struct {
	Hash    tool.Hash `json:"hash" jsonschema:"pattern=^[0-9a-f]{64}$" jsonschema_description:"SHA-256 of the definition in canonical form, in lower-case hex: what the gateway shows."`
	Shape   string    `json:"shape,omitempty" jsonschema_description:"Reserved. Empty, if it is there at all."`
	Summary string    `json:"summary,omitempty" jsonschema_description:"First line of the description, for readers of this file. It approves nothing, and is not compared."`
	Pending bool      `json:"pending,omitempty" jsonschema_description:"true: the definition waited for approval when the file was written. A merge of the file approves it; the next write removes the mark."`
	Note    string    `json:"note,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Why it is approved; the gateway's audit keeps it. A definition with a severe finding is approved only with its own note."`
}

// entries returns the entries of a kind, for reads and additions.
func (s *documentServer) entries(kind tool.Kind) *map[string]documentEntry {
	switch kind {
	case tool.Prompt:
		return &s.Prompts
	case tool.Resource:
		return &s.Resources
	}
	return &s.Tools
}

// kinds are the members of a server that contain entries.
var kinds = map[string]tool.Kind{"tools": tool.Tool, "prompts": tool.Prompt, "resources": tool.Resource}

// Bytes writes the file. The same entries give the same bytes.
func (f File) Bytes() []byte {
	d := document{Schema: schemaURL, Version: version, Servers: map[string]*documentServer{}}
	for id, e := range f {
		s := d.Servers[id.Server]
		if s == nil {
			s = &documentServer{}
			d.Servers[id.Server] = s
		}
		list := s.entries(id.Kind)
		if *list == nil {
			*list = map[string]documentEntry{}
		}
		e = e.clean()
		(*list)[id.Name] = documentEntry{Hash: e.Hash, Summary: e.Summary, Pending: e.Pending, Note: e.Note}
	}
	// it cannot fail: a document has only texts, numbers, booleans and maps, which it sorts
	data, _ := rawjson.Encode(d)
	return []byte(rawjson.Indent(data, "", "  ") + "\n")
}

// IDs returns the items of the file, sorted.
func (f File) IDs() []tool.ID {
	return slices.SortedFunc(maps.Keys(f), tool.ID.Compare)
}

// Servers returns how many servers have entries in the file.
func (f File) Servers() int {
	names := map[string]bool{}
	for id := range f {
		names[id.Server] = true
	}
	return len(names)
}

// Pending returns how many entries have the mark of a waiting item.
func (f File) Pending() (n int) {
	for _, e := range f {
		if e.Pending {
			n++
		}
	}
	return n
}

// OfServers returns the entries of the servers, or all entries if servers is empty.
func (f File) OfServers(servers ...string) File {
	out := File{}
	for id, e := range f {
		if len(servers) == 0 || slices.Contains(servers, id.Server) {
			out[id] = e
		}
	}
	return out
}
