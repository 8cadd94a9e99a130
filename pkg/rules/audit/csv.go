package audit

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Columns are the members of a [Line], in their order. A [CSV] has its columns in this order.
var Columns = columns()

func columns() (names []string) {
	t := reflect.TypeFor[Line]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// A CSV writes lines as comma-separated values (RFC 4180) for people who open them in a
// spreadsheet. It puts an apostrophe before a text that a spreadsheet program would read as a
// formula, and writes hidden characters as their numbers.
type CSV struct{ w *csv.Writer }

// NewCSV writes the names of the columns to w.
func NewCSV(w io.Writer) (CSV, error) {
	c := CSV{csv.NewWriter(w)}
	return c, c.flush(Columns)
}

// Write writes a line.
func (c CSV) Write(l Line) error {
	raw, err := rawjson.Encode(l)
	if err != nil {
		return err
	}
	members, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return err
	}
	row := make([]string, len(Columns))
	for i, name := range Columns {
		row[i] = cell(members.Get(name))
	}
	return c.flush(row)
}

func (c CSV) flush(row []string) error {
	if err := c.w.Write(row); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// splits matches each place where a program that splits cells at semicolons would begin a cell with
// a formula. Spreadsheet programs do so for languages that write decimals with a comma.
var splits = regexp.MustCompile(`(;[\s"]*)([=+\-@＝＋－＠])`)

// cell returns a member's value as the text of a cell. A value that is not a text is written as
// JSON. JSON never starts like a formula: no number in a line is below zero.
func cell(value json.RawMessage) string {
	if len(value) == 0 || value[0] != '"' {
		return string(value)
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	s = splits.ReplaceAllString(text.Reveal(s), "$1'$2")
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + s
	}
	return s
}
