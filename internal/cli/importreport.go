package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// An importedServer is the JSON output for a server.
type importedServer struct {
	Name      string           `json:"name"`
	Was       string           `json:"was,omitempty"`
	File      string           `json:"file"`
	Line      int              `json:"line"`
	How       string           `json:"how,omitempty"`
	State     string           `json:"state"`
	Why       string           `json:"why,omitempty"`
	Notes     []string         `json:"notes,omitempty"`
	Checks    []checkedMember  `json:"check,omitempty"`
	Variables []neededVariable `json:"variables,omitempty"`
}

// A neededVariable is a variable that a server needs. Its value is never in the output.
type neededVariable struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
	Set  bool   `json:"set"` // in the environment of the command
}

// A secretsFile is the file of --secrets.
type secretsFile struct {
	File    string `json:"file"`
	Ignored bool   `json:"ignored"` // a .gitignore excludes the file
}

// A checkedMember is a member of an entry that can do harm. Import omits the member unless a person
// accepts it.
type checkedMember struct {
	Member   string `json:"member"` // in the syntax of --accept
	Why      string `json:"why"`
	Accepted bool   `json:"accepted"`
}

// report prints the result for each server, and the next steps.
func (i *importing) report(backup string, cfg *config.Config) error {
	if i.Output == "json" {
		return i.reportJSON(backup)
	}
	return printWhole(i.env.stdout, func(w io.Writer) {
		t := newTable(w, "SERVER", "FROM", "HOW", "NOW")
		for _, s := range i.servers {
			state := i.state[s]
			if state == "added" && i.DryRun {
				state = "would be added"
			}
			if state == "changed" && i.DryRun {
				state = "would be changed"
			}
			if i.state[s] == "added" && s.Disabled {
				state += ", disabled"
			}
			t.row(s.Name, i.short(s.String()), s.How, state)
		}
		t.end()
		i.reportChecks(w)
		i.reportNotes(w)
		i.reportExports(w)
		fmt.Fprintln(w)
		i.reportFile(w, backup)
		i.reportNext(w, cfg)
	})
}

func (i *importing) reportJSON(backup string) error {
	out := struct {
		Config  string           `json:"config"`
		Written bool             `json:"written"`
		Backup  string           `json:"backup,omitempty"`
		Secrets *secretsFile     `json:"secrets,omitempty"`
		Servers []importedServer `json:"servers"`
	}{i.path, i.added+i.changed > 0 && !i.DryRun, backup, nil, []importedServer{}}
	if i.Secrets != "" && out.Written {
		out.Secrets = &secretsFile{i.Secrets, i.ignored}
	}
	for _, s := range i.servers {
		line := importedServer{Name: s.Name, Was: s.Was, File: s.File, Line: s.Line, How: s.How, State: i.state[s], Why: s.Left, Notes: s.Notes}
		for _, c := range s.Checks {
			line.Checks = append(line.Checks, checkedMember{c.ID, c.Why, c.Accepted})
		}
		for _, v := range s.Variables {
			line.Variables = append(line.Variables, neededVariable{v.Name, v.File, v.Line, v.Why, i.env.getenv(v.Name) != ""})
		}
		out.Servers = append(out.Servers, line)
	}
	return printJSON(i.env.stdout, out)
}

// reportChecks prints the members that can do harm: first the omitted members, then the newly
// accepted members.
func (i *importing) reportChecks(w io.Writer) {
	var left, taken strings.Builder
	for _, s := range i.servers {
		for _, c := range s.Checks {
			out := &left
			if c.Accepted {
				out = &taken
			}
			if !c.Accepted || i.isWritten(s) {
				why := text.Clip(text.Line(i.short(c.Why)), 400)
				fmt.Fprintf(out, "  %s: %s\n", inLine(c.ID), why)
			}
		}
	}
	if left.Len() > 0 {
		fmt.Fprintf(w, "\ncheck these members, which are left out:\n%s", left.String())
		fmt.Fprintln(w, "--accept NAME.MEMBER imports a member: "+
			"use it only if you know why the file has the member")
	}
	if taken.Len() > 0 {
		fmt.Fprintf(w, "\naccepted:\n%s", taken.String())
	}
}

// reportNotes prints the changes, and the reasons why servers are left out.
func (i *importing) reportNotes(w io.Writer) {
	heading := "\nto know:\n"
	for _, s := range i.servers {
		notes := s.Notes
		switch i.state[s] {
		case "is there":
			continue
		case "left out":
			notes = []string{"left out: " + s.Left}
		}
		for _, n := range notes {
			fmt.Fprintf(w, "%s  %s: %s\n", heading, inLine(s.Name), text.Clip(text.Line(i.short(n)), 400))
			heading = ""
		}
	}
}

// needed returns the new variables, each once.
func (i *importing) newVariables() (out []*clientfile.Variable) {
	for _, s := range i.servers {
		if !i.isWritten(s) {
			continue
		}
		for _, v := range s.Variables {
			if !slices.ContainsFunc(out, func(o *clientfile.Variable) bool { return o.Name == v.Name }) {
				out = append(out, v)
			}
		}
	}
	return out
}

// exports returns the lines that set the variables. If clear is set, they contain the credentials
// from the files.
func (i *importing) exports(clear bool) []byte {
	var b strings.Builder
	for _, v := range i.newVariables() {
		place := i.short(v.String())
		switch {
		case clear && v.Clear:
			fmt.Fprintf(&b, "%s # %s\n", connect.Export(v.Name, v.Value.Reveal()), place)
		case clear:
			fmt.Fprintf(&b, "# export %s= # %s: %s\n", v.Name, place, text.Line(v.Why))
		default:
			set := ""
			if i.env.getenv(v.Name) != "" {
				set = "; it is set here"
			}
			fmt.Fprintf(&b, "  export %s=…  # %s: %s%s\n", v.Name, place, inLine(v.Why), set)
		}
	}
	return []byte(b.String())
}

func (i *importing) reportExports(w io.Writer) {
	if len(i.newVariables()) == 0 {
		return
	}
	fmt.Fprintf(w, "\nset these where the gateway is started, to the values at these places:\n%s",
		i.exports(false))
	if i.Secrets == "" || i.DryRun {
		return
	}
	fmt.Fprintf(w, "the values in clear are in %s, which only you can read: . %s sets them. "+
		"They are still in the client's file.\n", i.Secrets, connect.Shell(dotted(i.Secrets)))
	if i.ignored {
		fmt.Fprintln(w, "a .gitignore names it, so git add skips it")
	} else {
		fmt.Fprintf(w, "warning: it is outside %s, so no line was added to a .gitignore: "+
			"keep it out of every repository\n", i.Dir)
	}
}

// dotted returns a path for a shell's . command, which searches PATH for a path without a slash.
func dotted(path string) string {
	if strings.ContainsAny(path, `/\`) {
		return path
	}
	return "./" + path
}

// reportFile prints the written files.
func (i *importing) reportFile(w io.Writer, backup string) {
	done := i.counts("")
	switch {
	case done == "":
		fmt.Fprintf(w, "%s: nothing to add; the file did not change\n", i.path)
	case i.DryRun:
		would := i.counts("would be ")
		fmt.Fprintf(w, "%s: %s; nothing was changed, since this is a dry run\n", i.path, would)
	case backup == "":
		fmt.Fprintf(w, "%s: made, with %s\n", i.path, text.Count(i.added, "server"))
	default:
		fmt.Fprintf(w, "%s: %s; copy of the old file: %s\n", i.path, done, backup)
	}
}

// counts returns how many servers were added and changed, or "".
func (i *importing) counts(verb string) string {
	var out []string
	if i.added > 0 {
		out = append(out, text.Count(i.added, "server")+" "+verb+"added")
	}
	if i.changed > 0 {
		out = append(out, text.Count(i.changed, "server")+" "+verb+"changed")
	}
	return strings.Join(out, ", ")
}

// reportNext prints the next steps.
func (i *importing) reportNext(w io.Writer, cfg *config.Config) {
	flag, place := "", ""
	if i.Dir != "." {
		flag, place = " --dir "+connect.Shell(i.Dir), " "+connect.Shell(i.Dir)
	}
	programs := 0
	for _, s := range i.servers {
		if c, ok := cfg.Server(s.Name); ok && c.Command != nil && i.state[s] == "added" {
			programs++
		}
	}
	if programs > 0 {
		what := "are programs: only portcullis serve --allow-commands" + flag + " starts them"
		if programs == 1 {
			what = "is a program: only portcullis serve --allow-commands" + flag + " starts it"
		}
		fmt.Fprintf(w, "%d of them %s, with PATH, HOME, LANG, TMPDIR, proxy and CA variables, "+
			"and the variables in their env\n", programs, what)
	}
	if i.added+i.changed > 0 && !i.DryRun {
		fmt.Fprintf(w, "next: portcullis check%s; then put the gateway into the client instead "+
			"of them: portcullis connect CLIENT%s\n", place, flag)
	}
}
