package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// askFlags are which gateway a command asks, and in what form it prints the answer.
type askFlags struct {
	gatewayFlags
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, for people, or json: the answer of the API."`
}

// json reports whether a program reads what is printed.
func (f askFlags) json() bool { return f.Output == "json" }

// call asks the API of the gateway that the flags name, and prints the answer as they say: show prints it
// for people.
func call[T any](ctx context.Context, f askFlags, env *environment, command, path string, query url.Values, body any, show func(io.Writer, T)) error {
	open := f.view
	if body != nil {
		open = f.open
	}
	g, err := open(ctx, env, command)
	if err != nil {
		return err
	}
	defer g.close()
	return callAt(ctx, g, f, env, path, query, body, show)
}

// callAt is call at a gateway that is open.
func callAt[T any](ctx context.Context, g *gateway, f askFlags, env *environment, path string, query url.Values, body any, show func(io.Writer, T)) error {
	var raw json.RawMessage
	var value T
	into := any(&value)
	if f.json() { // whatever it is
		into = &raw
	}
	if err := g.read(ctx, path, query, body, into); err != nil {
		return err
	}
	return f.print(env.stdout, raw, func(w io.Writer) { show(w, value) })
}

// A reply is an answer of the API, as it came and as it is read.
type reply[T any] struct {
	raw   json.RawMessage
	value T
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *reply[T]) UnmarshalJSON(data []byte) error {
	r.raw = bytes.Clone(data)
	return json.Unmarshal(data, &r.value)
}

// print prints an answer as the flags say: as JSON, or as show prints it for people.
func (f askFlags) print(w io.Writer, answer any, show func(io.Writer)) error {
	if f.json() {
		return printJSON(w, answer)
	}
	return printed(w, show)
}

// printed writes what show writes, at once.
func printed(w io.Writer, show func(io.Writer)) error {
	var out bytes.Buffer
	show(&out)
	_, err := w.Write(out.Bytes())
	return err
}

// printJSON writes a value as indented JSON that no terminal obeys.
func printJSON(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, escaped(rawjson.Indent(data, "", "  "))+"\n")
	return err
}

// escaped returns indented JSON with each character of its strings that does not print as its number, as
// JSON writes it: a terminal obeys some of them.
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

// inLine returns a text of somebody as it may stand in one line of a terminal.
func inLine(s string) string { return text.Clip(text.Line(s), 120) }

// A table is printed in columns as wide as what stands in them.
type table struct{ w *tabwriter.Writer }

// newTable returns a table on w with these headings.
func newTable(w io.Writer, headings ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(headings...)
	return t
}

// row adds a row; its texts are anybody's.
func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = inLine(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// end prints the table. It writes into memory, which does not fail.
func (t table) end() { _ = t.w.Flush() }
