// Package clientfile reads and edits the files in which MCP clients keep their servers.
//
// Each client has its own format: JSON with comments or TOML, its own names of members, its own
// syntax of a reference to the environment. [Read] turns all formats into the same [Server], and
// [Collect] selects what a gateway's config can hold. For a credential in a client's file the
// config gets only a reference to a [Variable], never the value. [Merge] and [Remove] change one
// entry of a file and no other byte.
package clientfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Place is a place in a file.
type Place struct {
	File string
	Line int // starts at 1; 0: the whole file
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A fault is an error in a file, with its place.
type fault struct {
	Place
	Message string
}

func (f *fault) Error() string { return f.String() + ": " + f.Message }

// A Server is an entry of a client's file, in the terms of the gateway's config. Until [Collect]
// has chosen the names of the variables, the texts contain marks instead of names.
type Server struct {
	Name string // valid for the gateway
	Was  string // the file's name for it, if different
	Place
	entry
	*reader // the reader of its file

	Disabled  bool
	Checks    []Check     // members that a person has to accept
	How       string      // how to reach the server: URL, program, or URL instead of a program
	Notes     []string    // changes, and members that could not be imported
	Left      string      // why the server is left out; "": it is imported
	Own       bool        // it is left out because it leads to the gateway itself
	Variables []*Variable // variables that the entry of a collected server refers to
	marked    []*Variable // the variables, by the number in their marks
}

// A Variable is a variable of the gateway's environment that a server's entry refers to.
type Variable struct {
	Name  string
	Place             // of the credential, or of the reference
	Why   string      // what the operator must know: the source of the value
	Value secret.Text // the credential in the client's file, if the file has it in clear
	Clear bool        // the file has the credential in clear
	fixed bool        // the file names the variable

	existing bool // the file refers to the variable, so it may be set for another purpose
}

// A File is a client's file after reading.
type File struct {
	Found   bool // the file has a member for servers
	Servers []*Server
}

// Options are the known facts about the machine. The zero value means that nothing is known.
type Options struct {
	Getenv func(name string) string // for references in URLs; nil: nothing is set
	Home   string
	// reports whether the gateway itself answers at a URL; nil: unknown
	Own     func(url string) bool
	Foreign bool // a person other than the user may have written the file
}

// Format is the format of a file.
type Format string

// The formats.
const (
	JSON Format = "json" // with comments and trailing commas
	TOML Format = "toml"
)

// FormatOf returns the format of a file, by its name or by its content.
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

// Read returns the servers of a file. Errors and places contain the path. Path and content
// determine the format. An error is a [*fault].
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

// parse reads a file in either format.
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

// projectOf returns the project folder of a file.
func projectOf(path string) string {
	dir := filepath.Dir(path)
	switch filepath.Base(dir) {
	case ".vscode", ".cursor", ".gemini", ".codex":
		return filepath.Dir(dir)
	}
	return dir
}
