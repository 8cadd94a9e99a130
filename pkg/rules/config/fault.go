package config

import (
	"fmt"
	"strings"
)

// A Fault is one fault of a file and its position.
type Fault struct {
	Path    string `json:"path,omitempty" doc:"JSON path, or the policy rule"` // such as mcpServers.github.url; "" for the whole file
	Line    int    `json:"line,omitempty"`                                     // 1-based; 0 if unknown
	Col     int    `json:"col,omitempty"`                                      // 1-based, in characters
	Message string `json:"message"`                                            // never contains a header's value or a URL
}

// String returns "line:col: path: message", without unknown parts.
func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", f.Line, f.Col)
	}
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// In returns "file:line:col: path: message", or "file: message" for a fault of the whole file.
func (f Fault) In(file string) string {
	if f.Line > 0 || f.Path != "" {
		return file + ":" + f.String()
	}
	return file + ": " + f.String()
}

// Faults has every fault of one file, in the order of the file. Its error text has one fault per
// line.
type Faults []Fault

// Error returns every fault, one per line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}
