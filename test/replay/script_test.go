package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A request is what both builds receive. Text of an earlier answer replaces a name with a dollar
// sign.
type request struct {
	verb, path, body string
	header           http.Header
	keep             [][2]string // names, and the patterns of their values in the answer
	mode             string      // new mode of the config before the request; "": no change
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %v\n%s", r.verb, r.path, r.header, r.body)
}

// A script creates requests from testdata/requests.txt. The choices are random, but the same in
// each run.
type script struct {
	rng   *rand.Rand
	words map[string]func() string // values of words in angle brackets
	parts []part
}

// A part contains blocks of lines. The test sends the blocks of a loop repeatedly.
type part struct {
	kind   string // once, loop or short loop
	blocks []string
}

// readParts reads the parts of testdata/requests.txt.
func (s *script) readParts(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "requests.txt"))
	require.OK(t, err)
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(data), "")
	for _, p := range strings.Split(text, "\n= ")[1:] {
		kind, blocks, _ := strings.Cut(p, "\n")
		s.parts = append(s.parts, part{kind, strings.Split(strings.TrimSpace(blocks), "\n\n")})
	}
}

// run returns about n requests of some parts.
func (s *script) run(t *testing.T, parts []part, n int) (all []request) {
	t.Helper()
	for _, p := range parts {
		end := len(all) + map[string]int{"loop": n * 3 / 4, "short loop": n / 4}[p.kind]
		for i := 0; i < len(p.blocks) || len(all) < end; i++ {
			for line := range strings.Lines(p.blocks[i%len(p.blocks)]) {
				line = s.expand(strings.TrimRight(line, "\n"))
				if change, ok := strings.CutPrefix(line, "  "); ok {
					all[len(all)-1].change(t, change)
				} else {
					all = append(all, s.request(t, line))
				}
			}
		}
	}
	return all
}

var choice = regexp.MustCompile(`<([^<>]*)>`)

// expand replaces each text in angle brackets, inside out, with its value or with one of its
// alternatives.
func (s *script) expand(line string) string {
	for choice.MatchString(line) {
		line = choice.ReplaceAllStringFunc(line, func(m string) string {
			m = m[1 : len(m)-1]
			if word := s.words[m]; word != nil {
				return word()
			}
			return s.pick(strings.Split(m, "|")...)()
		})
	}
	return line
}

// pick returns a function that chooses from a list.
func (s *script) pick(list ...string) func() string {
	return func() string { return list[s.rng.IntN(len(list))] }
}

// request returns the request of a line.
func (s *script) request(t *testing.T, line string) request {
	t.Helper()
	kind, rest, _ := strings.Cut(line, " ")
	r := request{verb: http.MethodPost, path: "/mcp", header: http.Header{}}
	r.header.Set("Content-Type", "application/json")
	switch f := strings.SplitN(rest, " ", 4); kind {
	case "get", "page", "post":
		path, body, _ := strings.Cut(rest, " ")
		if tool, ok := strings.CutPrefix(path, "/tools/"); ok {
			path = "/tools/" + strings.Replace(tool, ":", "/", 1)
		}
		r.path, r.body = "/admin"+path, body
		r.header.Set("Authorization", "Bearer $boss")
		if kind != "post" {
			r.verb = http.MethodGet
		}
		if kind == "page" {
			r.header.Set("Accept", "text/html")
		}
	case "tool":
		call := fmt.Sprintf(`{"name":%q,"arguments":%s}`, f[2], f[3])
		s.rpc(t, &r, f[0], f[1], mcp.MethodCallTool, call)
	case "rpc":
		s.rpc(t, &r, f[0], f[1], f[2], f[3])
	case "initialize":
		s.rpc(t, &r, "", rest, mcp.MethodInitialize, `{"protocolVersion":"`+mcp.VersionLegacy+
			`","capabilities":{},"clientInfo":{"name":"replay","version":"1"}}`)
		r.change(t, `keep session_`+rest+` Mcp-Session-Id: (\S+)`)
	case "raw":
		r.body = rest
		r.header.Set("Authorization", "Bearer $all")
	default:
		t.Fatalf("testdata/requests.txt has no %q: %s", kind, line)
	}
	return r
}

// rpc makes a JSON-RPC request of an agent.
func (s *script) rpc(t *testing.T, r *request, version, agent, method, params string) {
	t.Helper()
	r.header.Set("Authorization", "Bearer $"+agent)
	r.header.Set("Accept", "application/json, text/event-stream")
	switch version {
	case mcp.VersionModern:
		subject := require.JSON[struct{ Name, URI string }](t, params)
		r.header.Set(mcp.HeaderMethod, method)
		if subject.Name+subject.URI != "" {
			r.header.Set(mcp.HeaderName, subject.Name+subject.URI)
		}
		params = strings.TrimSuffix(params, "}") + `,"_meta":` + meta + "}"
		params = strings.Replace(params, "{,", "{", 1)
	case mcp.VersionLegacy:
		r.header.Set(mcp.HeaderSession, "$session_"+agent)
	}
	if version != "" {
		r.header.Set(mcp.HeaderVersion, version)
	}
	r.body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`,
		s.rng.IntN(1000), method, params)
}

// meta is the _meta of a request without a handshake.
var meta = func() string {
	data, _ := json.Marshal(map[string]any{
		mcp.MetaVersion: mcp.VersionModern, mcp.MetaClientCapabilities: map[string]any{},
		mcp.MetaClientInfo: map[string]string{"name": "replay", "version": "1"},
	})
	return string(data)
}()

// change applies an indented line to the request.
func (r *request) change(t *testing.T, line string) {
	t.Helper()
	kind, rest, _ := strings.Cut(line, " ")
	name, value, _ := strings.Cut(rest, " ")
	switch kind {
	case "header":
		if name != "" {
			r.header.Set(strings.TrimSuffix(name, ":"), value)
		}
	case "keep":
		r.keep = append(r.keep, [2]string{name, value})
	case "path":
		r.path = rest
	case "verb":
		r.verb = rest
	case "mode":
		r.mode = rest
	default:
		t.Fatalf("testdata/requests.txt has no %q: %s", kind, line)
	}
}
