package repocheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	settingsPage = "docs/settings.md"

	// versionVariable is no setting: no program reads it. The template sets it so that a function
	// gets a new version when a parameter changes.
	versionVariable = "PORTCULLIS_GIVEN"
)

// The tables of docs/settings.md name each environment variable that a program or a test reads, and
// no other. A third table has variables that only libraries read, so the code does not name them.
// No other page names a variable that nothing reads.
func TestSettingsNameEveryVariable(t *testing.T) {
	programs, tests := variables(t)
	scripts(t, tests)
	compare := func(head string, code map[string]bool) {
		t.Helper()
		listed := map[string]bool{}
		page := pages(t)[settingsPage]
		for {
			at := strings.Index(page, "| "+head+" |")
			if at < 0 {
				break
			}
			for _, cells := range golden.Rows(t, page[at:], "| "+head+" |") {
				for _, name := range regexp.MustCompile("[A-Z0-9_]+").FindAllString(cells[0], -1) {
					if listed[name] || !code[name] {
						t.Errorf("%s has a row for %s, which has a row already, or which nothing "+
							"reads: remove the row", settingsPage, name)
					}
					listed[name] = true
				}
			}
			page = page[at+len(head):]
		}
		for _, name := range slices.Sorted(maps.Keys(code)) {
			if !listed[name] {
				t.Errorf("%s has no row for %s: add one to a table with the head %q",
					settingsPage, name, head)
			}
		}
	}
	compare("variable", programs)
	for name := range programs {
		delete(tests, name)
	}
	compare("development variable", tests)
	for path, text := range pages(t) {
		for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
			isSecretOfCI := m[1] != ""
			if !isSecretOfCI && !programs[m[2]] && !tests[m[2]] {
				t.Errorf("%s names %s, which nothing reads", path, m[2])
			}
		}
	}
}

var mentioned = regexp.MustCompile(`(secrets\.)?\b(PORTCULLIS_[A-Z0-9_]*[A-Z0-9])\b`)

// variables returns the environment variables of programs and of tests.
func variables(t *testing.T) (programs, tests map[string]bool) {
	t.Helper()
	constants := map[string]string{} // by name, and by folder and name
	for _, f := range files(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if text := literal(spec.Values[i]); variable.MatchString(text) {
						constants[name.Name], constants[f.dir+" "+name.Name] = text, text
					}
				}
			}
			return true
		})
	}
	programs, tests = map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		isTest := f.test || testOnly(f.dir)
		add := func(name string) {
			switch {
			case !variable.MatchString(name), strings.HasSuffix(name, "_"), name == versionVariable:
			case !isTest:
				programs[name] = true
			case strings.HasPrefix(name, "PORTCULLIS_"):
				tests[name] = true
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && own.MatchString(literal(e)) {
				add(literal(e))
			}
			call, ok := n.(*ast.CallExpr)
			if ok && len(call.Args) > 0 && reads.MatchString(lastName(call.Fun)) {
				add(literal(call.Args[0]))
				name := lastName(call.Args[0])
				add(cmp.Or(constants[f.dir+" "+name], constants[name]))
			}
			return true
		})
	}
	return programs, tests
}

var (
	variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]{3,}$`)
	own      = regexp.MustCompile(`^(PORTCULLIS|OTEL)_`)
	reads    = regexp.MustCompile(`^([gG]etenv|[lL]ookupEnv)$`)
)

// literal returns the text of a string literal, or "".
func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

// lastName returns the name of an identifier, or the name after the last dot, or "".
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// scripts adds the variables that scripts and the Makefile read.
func scripts(t *testing.T, names map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "grep", "-hoE",
		`(\$[({]?|environ(\.get\(|\[)")PORTCULLIS_[A-Z0-9_]+`,
		"--", "Makefile", "localstack", "infra")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the folder is not a git clone: git grep: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		names[regexp.MustCompile(`PORTCULLIS_[A-Z0-9_]+`).FindString(line)] = true
	}
}

// TestSettingsTables generates the tables of the config's keys and of the template's parameters.
func TestSettingsTables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "mcp_config.schema.json"))
	require.OK(t, err)
	s := require.JSON[schema](t, string(text))
	parts := map[string]string{"parameters": parameterTables(t), "file": keyTable(s)}
	for name, def := range s.Defs {
		parts[name] = keyTable(def)
	}
	golden.Parts(t, filepath.Join(root, filepath.FromSlash(settingsPage)), parts)
}

// A schema is the part of a JSON Schema that the page shows.
type schema struct {
	Defs                 map[string]schema `json:"$defs"`
	Ref                  string            `json:"$ref"`
	Type, Description    string
	Properties           map[string]schema
	Required             []string
	Items                *schema
	AdditionalProperties json.RawMessage
	Enum                 []string
	Minimum, Maximum     *json.Number
	MaxItems             *json.Number
	Default              json.RawMessage
}

func keyTable(s schema) string {
	var b strings.Builder
	b.WriteString("| key | values | default | what it does |\n|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		standard := quoted(strings.Trim(strings.Join(strings.Fields(string(p.Default)), ""), `"`))
		if slices.Contains(s.Required, key) {
			standard = "required"
		}
		row(&b, quoted(key), p.values(), standard, p.Description)
	}
	return b.String()
}

// values returns the type of a key, or its values.
func (s schema) values() string {
	switch {
	case s.Ref != "":
		return "object"
	case len(s.Enum) > 0:
		return quoted(s.Enum...)
	case s.Type == "array" && s.Items.Ref == "":
		return "list of " + strings.Replace(s.Items.values(), "string", "strings", 1)
	case s.Type == "array":
		return "list of objects"
	case s.Type == "object":
		return "object"
	}
	return strings.TrimSpace(s.Type + " " + bounds(s.Minimum, s.Maximum))
}

// bounds returns "from 1 to 64", or a part of it.
func bounds(least, most *json.Number) string {
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf("from %s to %s", *least, *most)
	case least != nil:
		return "from " + least.String()
	case most != nil:
		return "up to " + most.String()
	}
	return ""
}

func quoted(all ...string) string {
	var out []string
	for _, s := range all {
		if s != "" {
			out = append(out, "`"+s+"`")
		}
	}
	return strings.Join(out, ", ")
}

// row writes a row of a table. A page that a text names as docs/NAME.md becomes a link.
func row(b *strings.Builder, cells ...string) {
	text := strings.NewReplacer("|", `\|`, "*", `\*`).Replace(strings.Join(cells, "\x00"))
	text = regexp.MustCompile(`\bdocs/([a-z-]+\.md)`).ReplaceAllString(text, "[$1]($1)")
	fmt.Fprintf(b, "| %s |\n", strings.ReplaceAll(text, "\x00", " | "))
}

// parameterTables returns a table for each group of the template's parameters.
func parameterTables(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	require.OK(t, err)
	head, rest, _ := strings.Cut(string(text), "\nParameters:")
	section, rest, _ := strings.Cut(rest, "\nRules:")
	_, body, _ := strings.Cut(rest, "\nGlobals:")
	rowOf := map[string]string{}
	starts := regexp.MustCompile(`(?m)^  (\w+): \{`).FindAllStringSubmatchIndex(section, -1)
	for i, at := range starts {
		name, to := section[at[2]:at[3]], len(section)
		if i+1 < len(starts) {
			to = starts[i+1][0]
		}
		of := func(field string) string { return fieldOf(section[at[1]:to], field) }
		about := of("Description")
		if about == "" {
			t.Errorf("template.yaml: %s has no description, or the test cannot read it", name)
		}
		var b strings.Builder
		sets := quoted(variablesOf(name, body)...)
		row(&b, quoted(name), limits(of), quoted(of("Default")), sets, about)
		rowOf[name] = b.String()
	}
	var out strings.Builder
	for _, m := range parameterGroup.FindAllStringSubmatch(head, -1) {
		names := strings.Fields(strings.ReplaceAll(m[2], ",", " "))
		slices.Sort(names)
		fmt.Fprintf(&out, "### %s\n\n| parameter | values | default | variables | what it does |\n"+
			"|---|---|---|---|---|\n", m[1])
		for _, name := range names {
			out.WriteString(rowOf[name])
		}
		out.WriteString("\n")
	}
	return out.String()
}

var parameterGroup = regexp.MustCompile(`Label: \{default: "([^"]*)"\}\s+Parameters: \[([^\]]*)\]`)

// fieldOf returns a field of a parameter in flow style, as one line.
func fieldOf(text, field string) string {
	value := `("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[.*?\]|[^,}\]]*)`
	m := regexp.MustCompile(`(?s)\b` + field + `: ` + value).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	value = strings.Join(strings.Fields(m[1]), " ")
	switch {
	case strings.HasPrefix(value, "'"):
		value = strings.ReplaceAll(strings.Trim(value, "'"), "''", "'")
	case strings.HasPrefix(value, `"`):
		value = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value[1 : len(value)-1])
	}
	return value
}

// limits returns the values that a parameter may have.
func limits(of func(field string) string) string {
	switch allowed := strings.Trim(of("AllowedValues"), "[]"); {
	case allowed != "":
		var all []string
		for _, value := range regexp.MustCompile(`"[^"]*"|[^", ]+`).FindAllString(allowed, -1) {
			all = append(all, strings.Trim(value, `"`))
		}
		return quoted(all...)
	case of("MinValue") != "":
		return of("MinValue") + " to " + of("MaxValue")
	case of("ConstraintDescription") != "":
		return of("ConstraintDescription")
	case of("Type") == "Number":
		return "number"
	}
	return "text"
}

// variablesOf returns the environment variables whose value the template takes from a parameter.
func variablesOf(parameter, body string) (names []string) {
	uses := regexp.MustCompile(`!Ref ` + parameter + `\b|\$\{` + parameter + `\}`)
	name, indent := "", 0
	for line := range strings.Lines(body) {
		deep := len(line) - len(strings.TrimLeft(line, " "))
		if m := assignment.FindStringSubmatch(line); m != nil {
			name, indent = m[1], deep
		} else if deep <= indent {
			name = ""
		}
		if name != "" && name != versionVariable && uses.MatchString(line) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var assignment = regexp.MustCompile(`^ +((?:PORTCULLIS|OTEL)_\w+):`)
