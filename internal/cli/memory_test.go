package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/allocated"
)

// A byteCount counts the output and discards it.
type byteCount int

func (c *byteCount) Write(p []byte) (int, error) {
	*c += byteCount(len(p))
	return len(p), nil
}

// To print any definitions, a command needs at most three times their size plus 10 MB at one time.
func TestPrintMemory(t *testing.T) {
	for name, s := range allocated.Shapes(tool.MaxDefinition - 100) {
		changed := decide.Tool{
			Record:   &decide.Record{State: approval.Changed, ApprovedHash: "before"},
			Approved: json.RawMessage(s.Before), Definition: json.RawMessage(s.Now),
		}
		changed.Change = (&decide.Service{}).Change(tool.KeptItem(tool.Tool, changed.Approved), tool.KeptItem(tool.Tool, changed.Definition))
		fresh := decide.Tool{Definition: changed.Definition}
		for _, tt := range []struct {
			name  string
			print func(io.Writer)
		}{
			{"diff", func(w io.Writer) { marker{w: w, colour: true}.words(changed) }},
			{"diff --raw", func(w io.Writer) { marker{w: w, colour: true}.raw(changed) }},
			{"approve", func(w io.Writer) { showReview(w, changed) }},
			{"approve of a new one", func(w io.Writer) { showReview(w, fresh) }},
			{"diff of a new one", func(w io.Writer) { marker{w: w, colour: true}.words(fresh) }},
			{"diff --raw of a new one", func(w io.Writer) { marker{w: w, colour: true}.raw(fresh) }},
			// writes to a counter do not fail
			{"-o json", func(w io.Writer) { _ = printJSON(w, changed) }},
		} {
			var printed byteCount
			// allow more in total: the data for each line is garbage at the next line, and other
			// goroutines allocate too
			const beside = 15<<20 + 256<<10
			n, most := allocated.By(func() { printed = 0; tt.print(&printed) }), uint64(3*(len(s.Before)+len(s.Now))+10<<20)
			if n > most+beside || uint64(printed) > most || printed == 0 {
				t.Errorf("%s: %s allocates %d KB and prints %d KB, want at most %d KB", name, tt.name, n>>10, printed>>10, most>>10)
			}
		}
	}
}

// Printing deeply nested arguments of a call completely needs little memory.
func TestPrintArgumentsMemory(t *testing.T) {
	arguments := strings.Repeat(`[`, 9_400) + strings.Repeat(`]`, 9_400)
	var out bytes.Buffer
	n := allocated.By(func() {
		out.Reset()
		showRequest(&out, decide.Request{Arguments: json.RawMessage(arguments)})
	})
	if n > 10<<20 || out.Len() > 3*request.MaxArgs {
		t.Errorf("%d bytes are allocated and %d printed", n, out.Len())
	}
}
