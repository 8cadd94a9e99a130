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

// A command prints with at most three times the size of the definitions and 10 MB, for any
// definitions. It never needs more at one time.
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
			{"-o json", func(w io.Writer) { _ = printJSON(w, changed) }}, // it does not fail
		} {
			var printed byteCount
			// The data compared for one line is garbage at the next, and other goroutines of the
			// test program allocate too.
			const beside = 15<<20 + 256<<10
			n, most := allocated.By(func() { printed = 0; tt.print(&printed) }), uint64(3*(len(s.Before)+len(s.Now))+10<<20)
			if n > most+beside || uint64(printed) > most || printed == 0 {
				t.Errorf("%s: %s allocates %d KB and prints %d KB, want at most %d KB", name, tt.name, n>>10, printed>>10, most>>10)
			}
		}
	}
}

// Nested arguments of a call are printed whole with little memory.
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
