// Package clientfile reads and edits the files in which MCP clients keep their servers.
//
// Every client has its own file: JSON with comments or TOML, other names for the same member, other
// spellings of a reference to the environment. [Read] makes the same [Server] of all of them, and
// [Collect] what a gateway's config can hold of it. A credential that stands in a client's file
// leaves it as a [Variable]: by its name and its place, never by its value. [Merge] and [Remove]
// change one entry of a file and leave every other byte as it is.
package clientfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Place is where something stands in a file.
type Place struct {
	File string
	Line int // 1-based; 0: the file as a whole
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A fault says what is wrong with a file, and where.
type fault struct {
	Place
	Message string
}

func (f *fault) Error() string { return f.String() + ": " + f.Message }

// A Server is an entry of a client's file, in the words of the gateway's config. Until [Collect]
// has named its variables, its texts hold marks in their places.
type Server struct {
	Name string // fit for the gateway
	Was  string // as the file has it, if that is another name
	Place
	entry
	*reader // which has read it

	Disabled  bool
	Checks    []Check     // members that a person has to accept
	How       string      // it is reached: URL, program, or URL instead of a program
	Notes     []string    // what was changed, and what could not be taken over
	Left      string      // why it is left out; "": it is not
	Own       bool        // it is left out because it leads to the gateway itself
	Variables []*Variable // that the entry of a gathered server refers to
	marked    []*Variable // by their marks
}

// A Variable is one of the gateway's environment that a server's entry refers to.
type Variable struct {
	Name  string
	Place             // where the credential stands, or the reference
	Why   string      // what the operator has to know: where its value comes from
	Value secret.Text // the credential in the client's file, if it stands there in clear
	Clear bool        // it does
	fixed bool        // the file names the variable

	existing bool // the file refers to it, so it may be set for something else
}

// A File is a client's file that was read.
type File struct {
	Found   bool // it has a place for servers
	Servers []*Server
}

// Options say what is known of the machine. The zero value knows nothing.
type Options struct {
	Getenv  func(name string) string // for references in URLs; nil: nothing is set
	Home    string
	Own     func(url string) bool // whether the gateway itself answers at a URL; nil: unknown
	Foreign bool                  // somebody else than the user may have written the file
}

// Format is how a file is written.
type Format string

// The formats.
const (
	JSON Format = "json" // with comments and trailing commas
	TOML Format = "toml"
)

// FormatOf returns the format of a file, by its name or else by its content.
func FormatOf(path string, data []byte) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".toml":
		return TOML
	case ".json", ".jsonc", ".json5":
		return JSON
	}
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte(bom)), space)
	if len(data) == 0 || data[0] == '{' || data[0] == '/' {
		return JSON
	}
	return TOML
}

// Read returns the servers of a file. The path is in errors and places. Path and content
// say which format it is. An error is a [*fault].
func Read(path string, data []byte, o Options) (*File, error) {
	root, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	r := &reader{
		path: path, options: o, lines: newLines(data), format: FormatOf(path, data),
		project: projectOf(path), inputs: map[string]string{},
	}
	r.dollar = filepath.Base(filepath.Dir(path)) == ".gemini"
	if o.Getenv == nil {
		r.options.Getenv = func(string) string { return "" }
	}
	f := &File{}
	return f, r.file(f, root)
}

// parse reads a file of either format.
func parse(path string, data []byte) (*rawjson.Node, error) {
	switch {
	case len(data) > MaxSize:
		return nil, &fault{Place{path, 0}, "is larger than 64 MiB"}
	case len(strings.TrimSpace(strings.TrimPrefix(string(data), bom))) == 0:
		return nil, &fault{Place{path, 1}, "is empty"}
	case FormatOf(path, data) == TOML:
		return parseTOML(path, data)
	case tooDeep(data):
		return nil, &fault{Place{path, 0}, "is nested too deeply"}
	}
	return parseJSON(path, data)
}

// projectOf returns the folder of the project that a file belongs to.
func projectOf(path string) string {
	dir := filepath.Dir(path)
	switch filepath.Base(dir) {
	case ".vscode", ".cursor", ".gemini", ".codex":
		return filepath.Dir(dir)
	}
	return dir
}
