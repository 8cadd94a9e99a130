package gateway

import (
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// appendLines appends an answer as lines to dst: one line for each tool, and then the names of the
// next tools by server.
//
//	call_with: call_tool_write
//	github:create_issue(owner:string, title:string) Create an issue.
//	github:get_issue(number:integer) [read] Get one issue.
//	more: github: update_issue, close_issue; jira: create_issue
//	locked:
//	jira:delete_issue [pending_approval] Delete an issue. note: "ask kim first"
//	pending_approval: Tool is disabled and not callable. …
//	notice: …
//
// The first line names the variant that calls most tools. A tag names the variant of each other
// tool. Text of servers and people is on one line and has round brackets, so that it cannot look
// like another entry or a tag. Names of servers and tools contain only letters, digits and "_.-".
func (m *matches) appendLines(dst []byte) []byte {
	usual := m.usual()
	if usual != "" {
		dst = append(append(append(dst, "call_with: "...), usual...), '\n')
	}
	for i := range m.Tools {
		t := &m.Tools[i]
		var tags []string
		if t.CallWith != usual {
			tags = append(tags, strings.TrimPrefix(t.CallWith, callPrefix))
		}
		signature, isSame := roundLiterals(t.Signature)
		if t.Lossy || !isSame {
			tags = append(tags, "lossy")
		}
		dst = append(append(dst, t.Name...), signature...)
		dst = append(appendPart(appendTags(dst, tags...), t.Description), '\n')
	}
	dst = appendMore(dst, m.More)
	if len(m.Disabled) > 0 {
		dst = append(dst, "locked:\n"...)
	}
	for _, d := range m.Disabled {
		dst = appendPart(appendTags(append(dst, d.Name...), string(d.Status)), d.Description)
		if d.Note != "" {
			dst = appendPart(dst, "note: "+strconv.Quote(text.Line(d.Note)))
		}
		dst = append(dst, '\n')
	}
	if root, err := rawjson.Parse(m.Remediation); err == nil {
		for i, status := range root.Keys {
			dst = append(append(append(append(dst, status...), ": "...), root.Kids[i].Text...), '\n')
		}
	}
	if m.Notice != "" {
		dst = append(append(append(dst, "notice: "...), m.Notice...), '\n')
	}
	return dst
}

// usual returns the variant that calls the most tools, or the first of several such variants.
func (m *matches) usual() string {
	counts := map[string]int{}
	best := ""
	for _, t := range m.Tools {
		counts[t.CallWith]++
	}
	for _, t := range m.Tools {
		if counts[t.CallWith] > counts[best] {
			best = t.CallWith
		}
	}
	return best
}

// appendMore appends the names of further tools, by server.
func appendMore(dst []byte, names []string) []byte {
	var servers []string
	byServer := map[string][]string{}
	for _, id := range names {
		server, name, _ := strings.Cut(id, ":")
		if !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
		byServer[server] = append(byServer[server], name)
	}
	for i, server := range servers {
		before := "; "
		if i == 0 {
			before = "more: "
		}
		dst = append(append(dst, before+server+": "...), strings.Join(byServer[server], ", ")...)
	}
	if len(servers) > 0 {
		dst = append(dst, '\n')
	}
	return dst
}

func appendTags(dst []byte, tags ...string) []byte {
	if len(tags) == 0 {
		return dst
	}
	return append(append(append(dst, " ["...), strings.Join(tags, ", ")...), ']')
}

// appendPart appends another party's text to the line. The text must have no line break.
func appendPart(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	return append(append(dst, ' '), round.Replace(s)...)
}

var round = strings.NewReplacer("[", "(", "]", ")")

// roundLiterals returns a signature with round brackets inside quotes, and whether the signature
// stayed unchanged.
func roundLiterals(signature string) (string, bool) {
	if !strings.Contains(signature, "'") {
		return signature, true
	}
	out := []byte(signature)
	isSame, isQuoted := true, false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '\'':
			isQuoted = !isQuoted
		case isQuoted && c == '\\':
			i++
		case isQuoted && (c == '[' || c == ']'):
			out[i], isSame = '(', false
			if c == ']' {
				out[i] = ')'
			}
		}
	}
	return string(out), isSame
}
