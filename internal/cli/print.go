package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// askFlags select the gateway of a command, and the format of its output.
type askFlags struct {
	gatewayFlags
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, for people, or json: the answer of the API."`
}

// json reports whether the output is JSON.
func (f askFlags) json() bool { return f.Output == "json" }

// print prints an answer in the format of the flags: as JSON, or with show.
func (f askFlags) print(w io.Writer, answer any, show func(io.Writer)) error {
	if f.json() {
		return printJSON(w, answer)
	}
	return printWhole(w, show)
}

// printWhole writes the output of show in one write.
func printWhole(w io.Writer, show func(io.Writer)) error {
	var out bytes.Buffer
	show(&out)
	_, err := w.Write(out.Bytes())
	return err
}

// printJSON writes a value as indented JSON without control characters for terminals.
func printJSON(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, escaped(rawjson.Indent(data, "", "  "))+"\n")
	return err
}

// escaped returns indented JSON in which each unprintable character of a string is a JSON escape,
// because some of these characters control a terminal.
func escaped(json string) string {
	var out strings.Builder
	for _, r := range json {
		switch {
		case r == '\n', unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	return out.String()
}

// inLine returns a foreign text for one line of a terminal.
func inLine(s string) string { return text.Clip(text.Line(s), 120) }

// A table is printed in columns that are as wide as their content.
type table struct{ w *tabwriter.Writer }

// newTable returns a table on w with these headings.
func newTable(w io.Writer, headings ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(headings...)
	return t
}

// row adds a row; its texts may be foreign.
func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = inLine(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// end prints the table. It writes into memory, which does not fail.
func (t table) end() { _ = t.w.Flush() }
