package linereader_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
)

// all returns the lines that Read finds in a stream, and only the beginning and end of a long line.
func all(r io.Reader, limit int) (out []string) {
	linereader.Read(r, limit, func(l linereader.Line) {
		s := string(l.Data)
		if l.Long {
			s += "…" + string(l.Tail)
		}
		out = append(out, s)
	})
	return out
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for in, want := range map[string][]string{
		"":                          nil,
		"a":                         {"a"},
		"a\nb\r\nc":                 {"a", "b", "c"},
		"\n\na\n":                   {"", "", "a"},
		"a\rb\n":                    {"a\rb"},
		"12345678\n123456789":       {"12345678", "123456789"},
		"a\n" + long + "END\r\nb\n": {"a", "xxxxxxxxxx…" + strings.Repeat("x", 507) + "END", "b"},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)), "last data with io.EOF": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if diff := cmp.Diff(want, all(r, 8)); diff != "" {
				t.Errorf("%.40q, %s (-want +got):\n%s", in, name, diff)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"), 3)
	f.Add(bytes.Repeat([]byte("abc"), 1000), 10)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit = max(limit, 1) % 10_000
		size, count := 0, 0
		linereader.Read(bytes.NewReader(stream), limit, func(l linereader.Line) {
			if len(l.Data) > limit+2 || len(l.Tail) > 512 || l.Long != (l.Tail != nil) || !l.Long && l.Size != len(l.Data) {
				t.Fatalf("limit %d: %+v", limit, l)
			}
			if bytes.ContainsRune(l.Data, '\n') {
				t.Fatalf("a line end in %q", l.Data)
			}
			size += l.Size
			count++
		})
		ends := bytes.Count(stream, []byte("\n"))
		if want := ends + 1; count != want && count != want-1 {
			t.Fatalf("%d lines, want %d, or one less without a last line", count, want)
		}
		if size > len(stream)-ends {
			t.Fatalf("the lines have %d bytes, but the stream has only %d", size, len(stream))
		}
	})
}
