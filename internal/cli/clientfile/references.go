package clientfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const clientReads = "the client read it from its environment"

// References as clients write them. A bare $NAME is one for Gemini CLI alone.
var (
	reference = regexp.MustCompile(`\$\{([^}]*)\}`)
	dollar    = regexp.MustCompile(`\$\{([^}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func isVariable(name string) bool { return variable.MatchString(name) }

// mark returns what stands for a variable of the server until its name is known. No text of a file
// holds it.
func mark(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

var marks = regexp.MustCompile("\x00([0-9]+)\x00")

// byMark returns the variable of a mark.
func (s *Server) byMark(mark string) *Variable {
	i, _ := strconv.Atoi(strings.Trim(mark, "\x00")) // it is digits
	return s.variables[i]
}

// add adds a variable and returns its mark.
func (s *Server) add(v *Variable) string {
	for i, old := range s.variables {
		if old.fixed && v.fixed && old.Name == v.Name {
			old.existing = old.existing || v.existing
			return mark(i)
		}
	}
	s.variables = append(s.variables, v)
	return mark(len(s.variables) - 1)
}

// variable returns the mark of a variable that the file names.
func (r *reader) variable(s *Server, name string, line int) string {
	if !isVariable(name) {
		s.left("refers to the variable " + text.Quote(name, 40) + ", which no environment has")
		return ""
	}
	return s.add(&Variable{
		Name: name, Place: Place{r.path, line}, Why: clientReads, fixed: true, existing: true,
	})
}

func (s *Server) left(why string) {
	if s.Left == "" {
		s.Left = why
	}
}

// replaced returns a text with what by returns in the place of each reference, which is whole and refers to
// body. No mark is in the text but those of by.
func (r *reader) replaced(s string, by func(whole, body string) string) string {
	form := reference
	if r.dollar {
		form = dollar
	}
	return form.ReplaceAllStringFunc(strings.ReplaceAll(s, "\x00", "\ufffd"), func(whole string) string {
		return by(whole, strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(whole, "$"), "{"), "}"))
	})
}

// refer returns a text with marks in the place of its references, and reports whether it has one.
func (r *reader) refer(s *Server, value string, line int) (out string, any bool) {
	out = r.replaced(value, func(_, body string) string {
		known, ok := r.known(body)
		if !ok {
			any = true
			known = r.answer(s, body, line)
		}
		return known
	})
	return out, any
}

// known returns what a reference says that is the same for everybody on this machine.
func (r *reader) known(body string) (string, bool) {
	switch body {
	case "userHome", "env:HOME", "HOME", "env:USERPROFILE", "USERPROFILE":
		return r.options.Home, r.options.Home != ""
	case "workspaceFolder", "CLAUDE_PROJECT_DIR":
		return r.project, true
	case "workspaceFolderBasename":
		return filepath.Base(r.project), true
	case "/", "pathSeparator":
		return string(filepath.Separator), true
	}
	return "", false
}

// answer returns the mark of what a reference refers to.
func (r *reader) answer(s *Server, body string, line int) string {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	name = strings.TrimPrefix(name, "env:")
	switch id, asked := strings.CutPrefix(body, "input:"); {
	case asked:
		why := "VS Code asked for it"
		if what := text.Line(r.inputs[id]); what != "" {
			why += ": " + text.Clip(what, 60)
		}
		own := r.prefixed(variableOf(id))
		return s.add(&Variable{Name: own, Place: Place{r.path, line}, Why: why, fixed: true})
	case isVariable(name):
		if hasFallback && fallback != "" {
			s.note("the value that stood for " + name + " where it is not set is not taken over")
		}
		return r.variable(s, name, line)
	case secret.Check(body) == nil: // a gateway's own
		return "${" + body + "}"
	}
	s.left(fmt.Sprintf("line %d holds %s, which its client alone can answer", line, text.Clip("${"+text.Line(body)+"}", 60)))
	return ""
}

// value returns what is sent or set: with marks for references, and for the credential if there is one in
// clear. name tells what it is; want is the name of its variable.
func (r *reader) value(s *Server, value string, line int, name, want string) string {
	out, refers := r.refer(s, value, line)
	if refers || strings.Contains(out, "${") {
		return out
	}
	from, to, found := credential(name, out)
	if !found {
		return out
	}
	return out[:from] + r.clear(s, out[from:to], line, want) + out[to:]
}

// clear returns the mark of a credential in clear.
func (r *reader) clear(s *Server, value string, line int, want string) string {
	return s.add(&Variable{
		Name: r.prefixed(want), Place: Place{r.path, line}, Why: "in clear", Value: secret.New(value), Clear: true,
	})
}

// prefixed returns the name of a variable that is made for a credential. A foreign file must not
// choose the name of one that is set for something else: the gateway would send that one.
func (r *reader) prefixed(name string) string {
	if !r.options.Foreign || strings.HasPrefix(name, "MCP_") {
		return name
	}
	return "MCP_" + name
}

// plain returns a text in which a gateway replaces nothing: its references are answered now.
func (r *reader) plain(s *Server, n *rawjson.Node) string {
	out, _ := r.resolved(s, n)
	return out
}

// resolved is plain, and returns the variables whose values are in the text.
func (r *reader) resolved(s *Server, n *rawjson.Node) (out string, used []string) {
	out = r.replaced(n.Text, func(whole, body string) string {
		if known, ok := r.known(body); ok {
			return known
		}
		name, fallback, _ := strings.Cut(body, ":-")
		name = strings.TrimPrefix(name, "env:")
		value := r.options.Getenv(name)
		switch {
		case isVariable(name) && value != "":
			used = append(used, name)
			s.note(fmt.Sprintf("%s is written out as it is set here: a gateway replaces nothing there", name))
			return value
		case isVariable(name) && fallback != "" && !strings.Contains(fallback, "$"):
			s.note(fmt.Sprintf("%s is written out as %s: a gateway replaces nothing there", name, text.Quote(fallback, 60)))
			return fallback
		}
		s.left(fmt.Sprintf("line %d refers to %s, where a gateway replaces nothing: set it and import again, or write the entry by hand", r.lines.of(n.Offset), text.Clip(text.Line(whole), 60)))
		return ""
	})
	return out, used
}
