package clientfile

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// The syntax of references in clients' files. Only Gemini CLI supports a bare $NAME.
var (
	reference = regexp.MustCompile(`\$\{([^}]*)\}`)
	dollar    = regexp.MustCompile(`\$\{([^}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func isVariable(name string) bool { return variable.MatchString(name) }

// mark returns the placeholder for variable i of a server. Texts contain the placeholder until the
// name of the variable is known. No text of a file contains it.
func mark(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

var marks = regexp.MustCompile("\x00([0-9]+)\x00")

// byMark returns the variable of a mark.
func (s *Server) byMark(mark string) *Variable {
	i, _ := strconv.Atoi(strings.Trim(mark, "\x00")) // cannot fail: a mark has only digits
	return s.marked[i]
}

// add adds the variable of a value, and returns its mark.
func (s *Server) add(v *Variable, at *rawjson.Node) string {
	for i, old := range s.marked {
		if old.fixed && v.fixed && old.Name == v.Name {
			old.existing = old.existing || v.existing
			return mark(i)
		}
	}
	v.Place = Place{s.path, s.line(at)}
	s.marked = append(s.marked, v)
	return mark(len(s.marked) - 1)
}

// variable returns the mark of a variable that the file names.
func (s *Server) variable(name string, at *rawjson.Node) string {
	if !isVariable(name) {
		s.leave("refers to the variable %s, which is not a valid name", text.Quote(name, 40))
		return ""
	}
	why := "the client read it from its environment"
	return s.add(&Variable{Name: name, Why: why, fixed: true, existing: true}, at)
}

// replace returns s with each reference replaced. If [reader.local] does not know the value of a
// reference, the function by gets the body of the reference and returns the new text. Only by can
// put marks into the result.
func (r *reader) replace(s string, by func(body string) string) string {
	form := reference
	if r.dollar {
		form = dollar
	}
	s = strings.ReplaceAll(s, "\x00", "\ufffd")
	return form.ReplaceAllStringFunc(s, func(whole string) string {
		body := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(whole, "$"), "{"), "}")
		if local, ok := r.local(body); ok {
			return local
		}
		return by(body)
	})
}

// local returns the value of a reference to something that is known here: the home folder, the
// project, or the separator of paths.
func (r *reader) local(body string) (string, bool) {
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

// refer returns a text with marks instead of its references. It reports whether there was a
// reference that [reader.local] does not know.
func (s *Server) refer(n *rawjson.Node) (out string, refers bool) {
	out = s.replace(n.Text, func(body string) string {
		refers = true
		return s.answer(body, n)
	})
	return out, refers
}

// answer returns the mark that replaces a reference.
func (s *Server) answer(body string, at *rawjson.Node) string {
	name, fallback, _ := strings.Cut(strings.TrimPrefix(body, "env:"), ":-")
	switch id, isAsked := strings.CutPrefix(body, "input:"); {
	case isAsked:
		why := "VS Code asked for it"
		if what := text.Line(s.inputs[id]); what != "" {
			why += ": " + text.Clip(what, 60)
		}
		return s.add(&Variable{Name: s.prefixed(variableOf(id)), Why: why, fixed: true}, at)
	case isVariable(name):
		if fallback != "" {
			s.note("the default value of %s is not imported", name)
		}
		return s.variable(name, at)
	case secret.Check(body) == nil: // a reference of the gateway
		return "${" + body + "}"
	}
	what := text.Clip("${"+text.Line(body)+"}", 60)
	s.leave("line %d holds %s, which only the client can resolve", s.line(at), what)
	return ""
}

// value returns a value with marks for references, and for a credential in clear. name is the
// name of the member that has the value; want is the preferred name of the variable.
func (s *Server) value(n *rawjson.Node, name, want string) string {
	out, refers := s.refer(n)
	if refers || strings.Contains(out, "${") {
		return out
	}
	from, to, found := secret.FindCredential(name, out)
	if !found {
		return out
	}
	v := &Variable{
		Name: s.prefixed(want), Why: "in clear", Value: secret.New(out[from:to]), Clear: true,
	}
	return out[:from] + s.add(v, n) + out[to:]
}

// prefixed returns the name of a new variable for a credential. A foreign file must not choose the
// name of an existing variable, because the gateway would send that variable's value.
func (r *reader) prefixed(name string) string {
	if !r.options.Foreign || strings.HasPrefix(name, "MCP_") {
		return name
	}
	return "MCP_" + name
}

// resolved returns a text in which the present value of a reference replaces the reference. Use it
// for members in which a gateway replaces no variables. It also returns the variables whose values
// the text contains. It never resolves a credential.
func (s *Server) resolved(n *rawjson.Node) (out string, used []string) {
	out = s.replace(n.Text, func(body string) string {
		name, fallback, _ := strings.Cut(strings.TrimPrefix(body, "env:"), ":-")
		value := s.options.Getenv(name)
		switch {
		case !isVariable(name):
		case value != "" && secret.IsCredential(name, value):
			s.leave("line %d refers to the credential %s, which the config would hold in clear: "+
				"write the entry by hand, with the credential in a header or in env", s.line(n), name)
			return ""
		case value != "":
			used = append(used, name)
			s.note("%s was replaced by its present value: a gateway replaces no variables there",
				name)
			return value
		case fallback != "" && !strings.Contains(fallback, "$"):
			what := text.Quote(fallback, 60)
			s.note("%s was replaced by %s: a gateway replaces no variables there", name, what)
			return fallback
		}
		what := text.Clip("${"+text.Line(body)+"}", 60)
		s.leave("line %d refers to %s, where a gateway replaces no variables: set it and import "+
			"again, "+
			"or write the entry by hand", s.line(n), what)
		return ""
	})
	return out, used
}
