package lockfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// MaxSize is the maximum size of a file, in bytes.
const MaxSize = 64 << 20

const (
	maxFaults = 50 // further faults are only counted
	// maxLocated is the size in bytes up to which faults get line numbers. To find the numbers
	// takes up to 40 times the size of the file in memory.
	maxLocated = 256 << 10

	// A file may have leastValues values, and one more for every bytesOfValue bytes. This is
	// enough, because an entry has a hash of 64 digits and only three other values.
	leastValues  = 1 << 10
	bytesOfValue = 20
)

// Parse reads a file. If anything is wrong, it returns no File and a [config.Faults], which
// contains every fault. If the JSON is broken, a merge is unfinished, or the version is unknown,
// Parse reports only this fault.
func Parse(data []byte) (File, error) {
	if len(data) > MaxSize {
		return nil, config.Faults{{Message: "the file is larger than 64 MiB"}}
	}
	if at := conflict(data); at != nil {
		return nil, config.Faults{*at}
	}
	if broken := config.Syntax(data); broken != nil {
		return nil, config.Faults{*broken}
	}
	root, err := rawjson.ParseBounded(data, leastValues+len(data)/bytesOfValue)
	switch {
	case err != nil:
		return nil, config.Faults{{Message: "not JSON: " + err.Error()}}
	case root.Kind == 0:
		return nil, config.Faults{{Message: "the file holds far more values than a file of its " +
			"size needs, and it was not read: write it again with portcullis approvals write"}}
	}
	r := reader{file: File{}}
	r.document(root)
	if len(r.faults) == 0 {
		return r.file, nil
	}
	faults := r.faults
	if len(data) <= maxLocated {
		faults = config.NewLocator(data).Locate(faults)
	}
	slices.SortStableFunc(faults, func(a, b config.Fault) int { return a.Line - b.Line })
	if more := r.found - len(faults); more > 0 {
		faults = append(faults, config.Fault{Message: "and " + text.Count(more, "more fault")})
	}
	return nil, faults
}

// conflict returns the place of a merge's conflict marks, or nil.
func conflict(data []byte) *config.Fault {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		for _, mark := range []string{"<<<<<<< ", "||||||| ", ">>>>>>> "} {
			if bytes.HasPrefix(line, []byte(mark)) {
				return &config.Fault{Line: n, Col: 1, Message: fmt.Sprintf("a merge left its "+
					"marks here (%s): finish the merge, or remove the file and write it again "+
					"with portcullis approvals write",
					text.Clip(strings.TrimSpace(string(line)), 40))}
			}
		}
	}
	return nil
}

// A reader reads one file, and collects its faults.
type reader struct {
	file   File
	faults config.Faults
	found  int
}

func (r *reader) fault(path, format string, args ...any) {
	if r.found++; len(r.faults) < maxFaults {
		r.faults = append(r.faults, config.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

// members calls the function do for each member of the object n. If n is not an object, or a name
// occurs twice, members adds a fault.
func (r *reader) members(n *rawjson.Node, path string, do func(name, path string, value *rawjson.Node)) {
	if !n.Object() {
		r.fault(path, "want an object")
		return
	}
	seen := make(map[string]bool, len(n.Keys))
	for i, name := range n.Keys {
		at := config.JoinPath(path, name)
		if seen[name] {
			r.fault(at, "duplicate key")
			continue
		}
		seen[name] = true
		do(name, at, n.Kids[i])
	}
}

// unknown adds a fault about a name that an object may not have.
func (r *reader) unknown(name, path string, known ...string) {
	if near := nearest(name, known); near != "" {
		r.fault(path, "unknown key; write %s", near)
		return
	}
	r.fault(path, "unknown key; it takes %s", strings.Join(known, ", "))
}

// word returns the text of a string. If n is not a string, word adds a fault.
func (r *reader) word(n *rawjson.Node, path string) string {
	if n.Kind != '"' {
		r.fault(path, "want a string")
		return ""
	}
	return n.Text
}

func (r *reader) document(n *rawjson.Node) {
	if n.Object() && !r.version(n.Get("version")) {
		return
	}
	servers := false
	r.members(n, "", func(name, path string, value *rawjson.Node) {
		switch name {
		case "$schema":
			r.word(value, path)
		case "version":
		case "servers":
			servers = true
			r.members(value, path, r.server)
		default:
			r.unknown(name, path, "$schema", "version", "servers")
		}
	})
	if n.Object() && !servers {
		r.fault("servers", "is missing")
	}
}

// version reports whether this program can read the version of the file.
func (r *reader) version(n *rawjson.Node) bool {
	switch {
	case n == nil:
		r.fault("version", "is missing: this is no %s, or is older than the format; portcullis approvals write writes version %d", Name, version)
	case n.Kind != '0':
		r.fault("version", "want a number, %d", version)
	case n.Text == fmt.Sprint(version):
		return true
	case strings.ContainsAny(n.Text, "-.eE") || n.Text == "0":
		r.fault("version", "is %s, which no portcullis writes; want %d", text.Clip(n.Text, 20), version)
	default:
		r.fault("version", "is %s, but this portcullis reads only %d: a newer portcullis wrote the file, so use that version", text.Clip(n.Text, 20), version)
	}
	return false
}

func (r *reader) server(server, path string, n *rawjson.Node) {
	if err := tool.ValidName(server); err != nil {
		r.fault(path, "%q cannot be the name of a server", text.Clip(server, 40))
		return
	}
	r.members(n, path, func(name, path string, value *rawjson.Node) {
		kind, ok := kinds[name]
		if !ok {
			r.unknown(name, path, "tools", "prompts", "resources")
			return
		}
		r.members(value, path, func(name, path string, value *rawjson.Node) {
			valid := tool.ValidName
			if kind == tool.Resource {
				valid = tool.ValidURI
			}
			if err := valid(name); err != nil {
				r.fault(path, "%v", err)
				return
			}
			r.entry(tool.ID{Server: server, Name: name, Kind: kind}, path, value)
		})
	})
}

func (r *reader) entry(id tool.ID, path string, n *rawjson.Node) {
	var e Entry
	hashed := false
	r.members(n, path, func(name, path string, value *rawjson.Node) {
		switch name {
		case "hash":
			hashed = true
			e.Hash = tool.Hash(r.word(value, path))
			if _, ok := e.Hash.Sum(); !ok && value.Kind == '"' {
				r.fault(path, "want 64 of 0-9 a-f, as the gateway shows them")
			}
		case "shape":
			if r.word(value, path) != "" {
				r.fault(path, "is reserved for a newer portcullis: remove it, or leave it empty")
			}
		case "summary":
			e.Summary = r.word(value, path)
		case "pending":
			if e.Pending = value.Is(true); !e.Pending && !value.Is(false) {
				r.fault(path, "want true or false")
			}
		case "note":
			if e.Note = r.word(value, path); len(e.Note) > approval.MaxNote {
				r.fault(path, "has %d bytes; at most %d are kept", len(e.Note), approval.MaxNote)
			}
		default:
			r.unknown(name, path, "hash", "shape", "summary", "pending", "note")
		}
	})
	if n.Object() && !hashed {
		r.fault(path, "hash is missing")
	}
	r.file[id] = e.clean()
}

// nearest returns the known name that a wrong name most likely means, or "".
func nearest(name string, known []string) string {
	for _, k := range known {
		if distance := text.Distance(strings.ToLower(text.Clip(name, 20)), k); distance <= len(k)/3 {
			return k
		}
	}
	return ""
}
