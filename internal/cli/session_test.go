package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// A terminal records input and output for comparison with a file. Its lines of standard error begin
// with "! ".
type terminal struct {
	t     *testing.T
	env   map[string]string
	names map[string]string // texts that differ between runs, with their replacements
	stdin string            // of the next command
	while func()            // called before the next command reads its input; nil: nothing
	typed bool              // a person types the input
	text  strings.Builder

	objects object.Store                        // of every bucket; nil: none
	browse  func(context.Context, string) error // of the next commands
}

// newTerminal returns a terminal. names are texts that differ between runs, with their
// replacements.
func newTerminal(t *testing.T, names map[string]string) *terminal {
	t.Helper()
	if names == nil {
		names = map[string]string{}
	}
	return &terminal{t: t, env: map[string]string{}, names: names}
}

// typing is the input of a command. It can call a function before the command reads.
type typing struct {
	io.Reader
	before func()
}

func (r *typing) Read(p []byte) (int, error) {
	if r.before != nil {
		r.before()
		r.before = nil
	}
	return r.Reader.Read(p)
}

// run runs a command. It returns the standard output, and the exit code.
func (s *terminal) run(args ...string) (out string, code int) {
	s.t.Helper()
	return s.runIn(s.t.Context(), args...)
}

func (s *terminal) runIn(ctx context.Context, args ...string) (out string, code int) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	in := &typing{Reader: strings.NewReader(s.stdin), before: s.while}
	err := run(ctx, args, &environment{
		getenv: func(name string) string { return s.env[name] }, stdin: in, stdout: &stdout, stderr: &stderr, terminal: s.typed, browse: s.browse,
		bucket: func(_ context.Context, name string) (object.Store, error) {
			if s.objects == nil {
				return nil, fmt.Errorf("no such bucket: %s", name)
			}
			return s.objects, nil
		},
	})
	code = exitCode(err, &stderr)
	secrettest.Absent(s.t, "the terminal", stdout.String()+stderr.String())
	s.stdin, s.while = "", nil
	fmt.Fprintf(&s.text, "$ portcullis %s\n%s", quoted(args), stdout.String())
	for line := range strings.Lines(stderr.String()) {
		s.text.WriteString("! " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if code != 0 {
		fmt.Fprintf(&s.text, "[exit %d]\n", code)
	}
	s.text.WriteString("\n")
	return stdout.String(), code
}

// must runs a command. The test fails unless the command ends with the code.
func (s *terminal) must(code int, args ...string) string {
	s.t.Helper()
	out, got := s.run(args...)
	if got != code {
		s.t.Fatalf("portcullis %s ends with %d, want %d:\n%s", quoted(args), got, code, s.text.String())
	}
	return out
}

func quoted(args []string) string {
	var words []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \"'$;&|<>*?()\\\n") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// The parts of all output that differ between runs.
var differing = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIMESTAMP"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?`), "TIME"},
	{regexp.MustCompile(`\b20\d{6}T\d{6}Z(-\d\b)?`), "STAMP"},
	{regexp.MustCompile(`\bprocess \d+\b`), "process PID"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\b[0-9a-f]{20}\b`), "TOKEN-ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`), "ADDRESS"},
	{regexp.MustCompile(`R-[0-9A-Z]{8}\b`), "R-REQUEST0"},
	{regexp.MustCompile(`\bclient-\d+\b`), "client-N"}, // if the usual port is in use, a login registers again
	{regexp.MustCompile(`\bstate=[A-Z2-7]{26}\b`), "state=STATE"},
	{regexp.MustCompile(`\bcode_challenge=[\w-]{43}`), "code_challenge=CHALLENGE"},
	{regexp.MustCompile(`127\.0\.0\.1%3A\d+`), "ADDRESS"},
	{regexp.MustCompile(`pct_[A-Za-z0-9_-]{20,}`), "pct_TOKEN"},
}

// check compares the session with testdata/sessions/name.txt.
func (s *terminal) check(name string) {
	s.t.Helper()
	text := s.text.String()
	// replace a folder before its parent
	byLength := func(a, b string) int { return len(b) - len(a) }
	for _, value := range slices.SortedFunc(maps.Keys(s.names), byLength) {
		text = strings.ReplaceAll(text, value, s.names[value])
	}
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.name)
	}
	golden.Check(s.t, filepath.Join("testdata", "sessions", name+".txt"), text)
}
