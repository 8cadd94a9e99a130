// Package lockfile reads, writes and compares approvals.lock.json: which definitions are approved, as a
// file that is reviewed and merged like code.
//
// The file holds hashes and no definitions. What it approves is exactly what somebody saw at a gateway;
// whether a gateway still has that is for [Compare] to say, and [Markdown] shows it to the people who
// review a change of the file. The servers wrote what is shown there, and may be hostile: nothing of
// theirs is left to the Markdown of whoever renders it.
package lockfile

import (
	"maps"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Name is what the file is called unless somebody says otherwise.
const Name = "approvals.lock.json"

// version is the version of the format that this program writes, and the one that it reads.
const version = 1

const (
	schemaURL  = "https://raw.githubusercontent.com/portcullis-mcp/portcullis/main/docs/approvals.lock.schema.json"
	maxSummary = 200 // characters
)

// A File is what a file approves, by what it is about.
type File map[tool.ID]Entry

// An Entry is one definition.
type Entry struct {
	Hash    tool.Hash
	Summary string // first line of the description, for whoever reads the file
	Pending bool   // the definition waited when the file was written: who merges the file approves it
	Note    string // of the approval; a definition with a severe finding is not approved without
}

// Summary returns the line of a file for a description, or for the first sentence of one.
func Summary(description string) string {
	return text.Clip(text.Line(tool.FirstSentence(description)), maxSummary)
}

// clean returns e as a file keeps it.
func (e Entry) clean() Entry {
	e.Summary = text.Clip(text.Line(e.Summary), maxSummary)
	if text.Blank(e.Note) {
		e.Note = ""
	}
	return e
}

// The types below are the file as it is written. [File.Bytes] writes them, and its JSON Schema is
// generated from them.

// A document is the whole file.
type document struct {
	Schema  string                     `json:"$schema,omitempty" jsonschema_description:"The JSON Schema of this file, for editors. No program reads it."`
	Version int                        `json:"version" jsonschema:"enum=1" jsonschema_description:"Of the format."`
	Servers map[string]*documentServer `json:"servers" jsonschema_description:"What is approved of each server, by its name in mcp_config.json."`
}

// A documentServer is what is approved of one server.
type documentServer struct {
	Tools     map[string]documentEntry `json:"tools,omitempty" jsonschema_description:"Tools by name."`
	Prompts   map[string]documentEntry `json:"prompts,omitempty" jsonschema_description:"Prompts by name."`
	Resources map[string]documentEntry `json:"resources,omitempty" jsonschema_description:"Resources by URI, templates of them by URI template."`
}

// A documentEntry is one definition.
type documentEntry struct {
	Hash    tool.Hash `json:"hash" jsonschema:"pattern=^[0-9a-f]{64}$" jsonschema_description:"SHA-256 of the definition in canonical form, in lower-case hex: what the gateway shows."`
	Shape   string    `json:"shape,omitempty" jsonschema_description:"Reserved. Empty, if it is there at all."`
	Summary string    `json:"summary,omitempty" jsonschema_description:"First line of the description, for whoever reads this file. It approves nothing, and is not compared."`
	Pending bool      `json:"pending,omitempty" jsonschema_description:"true: the definition waited for approval when the file was written. Who merges the file approves it; the next write takes the mark away."`
	Note    string    `json:"note,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Why it is approved; the gateway's audit keeps it. A definition with a severe finding is approved with a note of its own alone."`
}

// entries returns the entries of a kind, to be read or added to.
func (s *documentServer) entries(kind tool.Kind) *map[string]documentEntry {
	switch kind {
	case tool.Prompt:
		return &s.Prompts
	case tool.Resource:
		return &s.Resources
	}
	return &s.Tools
}

// kinds are the members of a server that have entries.
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
	data, _ := rawjson.Encode(d) // texts, numbers and maps of them have a JSON form; it sorts the names of a map
	return []byte(rawjson.Indent(data, "", "  ") + "\n")
}

// IDs returns what the file is about, sorted.
func (f File) IDs() []tool.ID {
	return slices.SortedFunc(maps.Keys(f), tool.ID.Compare)
}

// Servers returns how many servers the file has entries of.
func (f File) Servers() int {
	names := map[string]bool{}
	for id := range f {
		names[id.Server] = true
	}
	return len(names)
}

// Pending returns how many entries are marked as waiting.
func (f File) Pending() (n int) {
	for _, e := range f {
		if e.Pending {
			n++
		}
	}
	return n
}

// Of returns the entries of the servers; of all if none is named.
func (f File) Of(servers ...string) File {
	out := File{}
	for id, e := range f {
		if len(servers) == 0 || slices.Contains(servers, id.Server) {
			out[id] = e
		}
	}
	return out
}
