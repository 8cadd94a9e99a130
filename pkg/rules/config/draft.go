package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A Draft is a server as a person describes it, before it is an entry of mcpServers. It has either
// a URL or a command.
type Draft struct {
	URL      string
	Headers  []string // NAME:VALUE, of each request to the URL
	Command  []string // the program and its arguments
	Env      []string // variables of the program: NAME=VALUE, or NAME to pass on the gateway's
	Cwd      string   // working directory of the program; "": the gateway's
	Approval string   // of a new server; "": the default
}

// Unchanged is the text for a value in the config that a person does not see, and keeps.
const Unchanged = "(unchanged)"

// KeepsValue reports whether a header or a variable is [Unchanged].
func (d Draft) KeepsValue() bool {
	keeps := func(s string) bool { return strings.HasSuffix(s, Unchanged) }
	return slices.ContainsFunc(d.Headers, keeps) || slices.ContainsFunc(d.Env, keeps)
}

// Entry returns the members of the server's entry. It refuses text that looks like a secret,
// because everybody who reads the file can see it. [Parse] checks everything else.
func (d Draft) Entry() (rawjson.Object, error) {
	entry := rawjson.Object{}
	if d.Approval != "" {
		entry.Add("approval", rawjson.Quote(d.Approval))
	}
	if len(d.Command) == 0 {
		switch {
		case len(d.Env) > 0 || d.Cwd != "":
			return nil, errors.New(
				"variables and a working directory belong to a command, and this server has none")
		case secret.IsCredential("", d.URL):
			return nil, inClearError("the URL", "in a header")
		}
		entry.Add("url", rawjson.Quote(d.URL))
		return entry, addPairs(&entry, "headers", "header", ":", d.Headers)
	}
	switch {
	case d.URL != "":
		return nil, errors.New("a server has a URL or a command, and this one has both")
	case len(d.Headers) > 0:
		return nil, errors.New("a header belongs to a URL, and this server has a command")
	}
	args := d.Command[1:]
	for i, found := range secret.InArgs(args) {
		if len(found) > 0 || strings.Contains(args[i], "://") && secret.IsCredential("", args[i]) {
			return nil, inClearError(
				fmt.Sprintf("argument %d of the command", i+1),
				"in a variable, if the program can read it there",
			)
		}
	}
	entry.Add("command", rawjson.Quote(d.Command[0]))
	if len(args) > 0 {
		list, err := rawjson.Encode(args)
		if err != nil {
			return nil, err
		}
		entry.Add("args", list)
	}
	if d.Cwd != "" {
		entry.Add("cwd", rawjson.Quote(d.Cwd))
	}
	return entry, addPairs(&entry, "env", "variable", "=", d.Env)
}

// addPairs adds names with values as a member, if there are any. what names one of them for people.
func addPairs(entry *rawjson.Object, member, what, sep string, all []string) error {
	if len(all) == 0 {
		return nil
	}
	out := rawjson.Object{}
	for _, one := range all {
		name, value, found := strings.Cut(one, sep)
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case name == "" || !found && sep == ":":
			return fmt.Errorf("a %s has the form NAME%sVALUE", what, sep) // one may be a secret
		case !found:
			value = "${env:" + name + "}"
		case out.Get(name) != nil:
			return fmt.Errorf("the %s %s is given twice", what, text.Quote(name, 80))
		}
		if isClearSecret(name, value) {
			return inClearError("the "+what+" "+text.Quote(name, 80), "there")
		}
		out.Add(name, rawjson.Quote(value))
	}
	entry.Add(member, out.Bytes())
	return nil
}

// isClearSecret reports whether a value looks like a secret outside of its references.
func isClearSecret(name, value string) bool {
	if value == Unchanged {
		return false
	}
	if !strings.Contains(value, "${") {
		return secret.IsCredential(name, value)
	}
	rest, err := secret.Expand(value, func(string) (string, error) { return "", nil })
	return err == nil && secret.IsCredential("", rest)
}

// inClearError is the refusal of a secret in clear text. It does not repeat the secret.
func inClearError(what, where string) error {
	return fmt.Errorf("%s looks like a secret in clear text, which everybody who reads the config "+
		"could see. Set a variable where the gateway runs, and write ${env:NAME} %s", what, where)
}
