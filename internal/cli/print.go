package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// askFlags select the gateway of a command, and the format of its output.
type askFlags struct {
	gatewayFlags
	outputFlag
}

// An outputFlag is the format of a command's output. The JSON of a command that asks the gateway is
// the answer of the API.
type outputFlag struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, for people, or json."`
}

// json reports whether the output is JSON.
func (f outputFlag) json() bool { return f.Output == "json" }

// print prints an answer in the format of the flag: as JSON, or with show.
func (f outputFlag) print(w io.Writer, answer any, show func(io.Writer)) error {
	if f.json() {
		return printJSON(w, answer)
	}
	return printWhole(w, show)
}

// printWhole writes the output of show in one write.
func printWhole(w io.Writer, show func(io.Writer)) error {
	out := page{width: columnsOf(w)}
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

// A table is printed in columns that are as wide as their content. If the terminal is narrower, the
// widest columns break their texts into lines.
type table struct {
	w    io.Writer
	rows *[][]string
}

// newTable returns a table on w with these headings.
func newTable(w io.Writer, headings ...string) table {
	t := table{w, &[][]string{}}
	t.row(headings...)
	return t
}

// row adds a row; its texts may be foreign.
func (t table) row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = inLine(c)
	}
	*t.rows = append(*t.rows, row)
}

// end prints the table. It writes into memory, which does not fail.
func (t table) end() {
	var widths []int
	for _, row := range *t.rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	widths = narrowed(widths, columnsOf(t.w))
	for _, row := range *t.rows {
		writeRow(t.w, widths, row)
	}
}

// gap is the number of spaces between two columns. No column becomes narrower than narrowest.
const gap, narrowest = 2, 6

// narrowed returns the widths with which columns fit into a line: it makes the widest columns
// narrower. A line of 0 columns has no limit.
func narrowed(widths []int, line int) []int {
	widths = slices.Clone(widths)
	for line > 0 {
		sum := gap * (len(widths) - 1)
		for _, w := range widths {
			sum += w
		}
		widest := slices.Max(widths)
		if sum <= line || widest <= narrowest {
			break
		}
		widths[slices.Index(widths, widest)]--
	}
	return widths
}

// writeRow writes cells in columns. A text that is longer than its column continues below.
func writeRow(w io.Writer, widths []int, cells []string) {
	parts := make([][]string, len(cells))
	lines := 0
	for i, c := range cells {
		parts[i] = breakText(c, widths[i])
		lines = max(lines, len(parts[i]))
	}
	for n := range lines {
		line := ""
		for i, part := range parts {
			cell := ""
			if n < len(part) {
				cell = part[n]
			}
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// breakText breaks a text into lines of at most width characters: at a space if there is one in
// the second half of the line.
func breakText(s string, width int) (lines []string) {
	all := []rune(s)
	for len(all) > width {
		at, skip := width, 0
		for i := width; i > width/2; i-- {
			if all[i] == ' ' {
				at, skip = i, 1
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(all[:at]), " "))
		all = all[at+skip:]
	}
	return append(lines, string(all))
}

// columnsOf returns the width of the terminal that w writes to; 0 if it is no terminal.
func columnsOf(w io.Writer) int {
	switch out := w.(type) {
	case interface{ columns() int }:
		return out.columns()
	case *os.File:
		if columns, _, err := term.GetSize(int(out.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

// A page is a text in memory for a terminal.
type page struct {
	bytes.Buffer
	width int // of the terminal; 0: none
}

func (p *page) columns() int { return p.width }
