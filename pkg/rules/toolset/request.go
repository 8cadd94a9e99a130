package toolset

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// The headers that narrow a request, with their aliases, and the header that decides about names
// that do not exist.
const (
	headerToolsets = "X-MCP-Toolsets"
	headerTools    = "X-MCP-Tools"
	aliasTools     = "X-MCP-Enabled-Tools"
	headerExclude  = "X-MCP-Exclude-Tools"
	aliasExclude   = "X-MCP-Disabled-Tools"
	headerReadOnly = "X-MCP-Readonly"
	headerPrefer   = "Prefer"
)

// Limits of one list, with all its lines and aliases.
const (
	maxListBytes = 8 << 10
	maxListNames = 256
)

// Headers returns the names of the headers that ParseRequest reads. They are
// allowed across origins, and never sent upstream.
func Headers() []string {
	return []string{headerToolsets, headerTools, aliasTools, headerExclude, aliasExclude, headerReadOnly, headerPrefer}
}

// A list has the names of one header, sorted and each once. An empty header differs from a missing
// one: it means "none".
type list struct {
	given bool
	names []string
}

// A Request is the selection that one HTTP request asks for, parsed but not yet resolved. The zero
// Request asks for everything.
type Request struct {
	path     string // toolset of the path, "" for none
	toolsets list
	tools    list
	exclude  list
	readOnly bool
	lenient  bool
}

// narrows reports whether the request asks for less than everything.
func (r Request) narrows() bool {
	return r.path != "" || r.toolsets.given || r.tools.given || len(r.exclude.names) > 0 || r.readOnly
}

// ParseRequest reads a request from the part of its path after /mcp ("", "/readonly" or
// "/x/{toolset}", decoded) and its headers. The error is an [*Error] that names every header that
// cannot be read.
func ParseRequest(path string, h http.Header) (Request, error) {
	r := Request{lenient: lenient(h)}
	if err := r.readPath(path); err != nil {
		return Request{}, err
	}
	if len(h) == 0 { // most requests have no such header
		return r, nil
	}
	var faults []string
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err.Error())
		}
	}
	var err error
	r.toolsets, err = readList(h, headerToolsets)
	fault(err)
	r.tools, err = readList(h, headerTools, aliasTools)
	fault(err)
	r.exclude, err = readList(h, headerExclude, aliasExclude)
	fault(err)
	readOnly, err := readBool(h, headerReadOnly)
	fault(err)
	if faults != nil {
		return Request{}, &Error{Status: http.StatusBadRequest, Message: strings.Join(faults, "; ")}
	}
	r.readOnly = r.readOnly || readOnly
	return r, nil
}

func (r *Request) readPath(path string) error {
	switch path {
	case "":
		return nil
	case "/readonly":
		r.readOnly = true
		return nil
	}
	name, ok := strings.CutPrefix(path, "/x/")
	if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(name, "/") {
		return &Error{Status: http.StatusNotFound, Message: "not found: the paths are /mcp, /mcp/readonly and /mcp/x/{toolset}"}
	}
	r.path = name
	return nil
}

// readList joins every line of a header and of its alias.
func readList(h http.Header, names ...string) (list, error) {
	var l list
	size := 0
	for _, header := range names {
		for _, line := range h.Values(header) {
			l.given = true
			size += len(line) + 1
			if size > maxListBytes+1 {
				return list{}, fmt.Errorf("%s has more than %d bytes", names[0], maxListBytes)
			}
			for name := range strings.SplitSeq(line, ",") {
				if name = strings.TrimSpace(name); name != "" {
					l.names = append(l.names, name)
				}
			}
		}
	}
	slices.Sort(l.names)
	l.names = slices.Compact(l.names)
	if len(l.names) > maxListNames {
		return list{}, fmt.Errorf("%s has more than %d names", names[0], maxListNames)
	}
	return l, nil
}

// readBool reads a switch. Several lines must agree: a contradictory request must not get the
// wider selection.
func readBool(h http.Header, header string) (bool, error) {
	var value, given bool
	for _, line := range h.Values(header) {
		for word := range strings.SplitSeq(line, ",") {
			v, ok := boolOf(strings.TrimSpace(word))
			switch {
			case !ok:
				return false, fmt.Errorf("%s is %q, which is none of true, false, 1, 0, yes, no, on, off", header, text.Clip(word, maxEcho))
			case given && v != value:
				return false, fmt.Errorf("%s says both true and false", header)
			}
			value, given = v, true
		}
	}
	return value, nil
}

func boolOf(word string) (value, ok bool) {
	switch strings.ToLower(word) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// lenient reports whether the request prefers handling=lenient (RFC 7240). If a preference is
// given twice the first one counts.
func lenient(h http.Header) bool {
	for _, line := range h.Values(headerPrefer) {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(name), "handling") {
				return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "lenient")
			}
		}
	}
	return false
}

// maxEcho is how many characters of one name a message repeats.
const maxEcho = 128
