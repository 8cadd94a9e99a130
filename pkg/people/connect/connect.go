// Package connect says how each MCP client is told of a gateway: by a link, a command or a file.
//
// Each client has its own form, which its authors change about twice a year. So each form names the
// page that documents it and the day on which it was last compared with that page; those of the
// clients that can be installed from a registry are run by the tests as well ([Client.Run]).
//
// No form holds a credential, but the name of the environment variable in which the client finds
// it: links and files of a project are shared. [Seen] remembers which clients have come.
package connect

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
)

// An Auth is what a gateway asks of its callers.
type Auth string

// The ways of authentication, as far as they differ for a client.
const (
	None   Auth = "none"   // every caller is let in
	Bearer Auth = "bearer" // a token, which the client reads from an environment variable
	OAuth  Auth = "oauth"  // a token, which the client gets at the issuer by itself
	Signed Auth = "signed" // a signature with AWS credentials
)

// The name of the entry and of the environment variable, unless an [Endpoint] says otherwise.
const (
	DefaultName     = "portcullis"
	DefaultVariable = "PCT"
)

// An Endpoint is what a client is to be told.
type Endpoint struct {
	URL      string // where the gateway answers, with its path: https://gate.example.com/mcp/x/triage
	Auth     Auth
	Name     string // of the entry in the client's config; "": DefaultName
	Variable string // of the environment, that holds the token; "": DefaultVariable
}

var (
	entryName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// filled returns e with its defaults, or what is wrong with it.
func (e Endpoint) filled() (Endpoint, error) {
	e.Name, e.Variable, e.Auth = cmp.Or(e.Name, DefaultName), cmp.Or(e.Variable, DefaultVariable), cmp.Or(e.Auth, None)
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "":
		return e, fmt.Errorf("%q is no address of a gateway: want https://HOST/mcp", e.URL)
	case !entryName.MatchString(e.Name):
		return e, fmt.Errorf("name %q: want 1 to 64 letters, digits, _ and -, the first a letter or digit", e.Name)
	case !variableName.MatchString(e.Variable):
		return e, fmt.Errorf("environment variable %q: want letters, digits and _", e.Variable)
	case !slices.Contains([]Auth{None, Bearer, OAuth, Signed}, e.Auth):
		return e, fmt.Errorf("authentication %q is not known", e.Auth)
	}
	e.URL = u.String()
	return e, nil
}

// A Client is a program that agents run in.
type Client struct {
	ID      string `json:"id"` // in addresses: claude-code
	Name    string `json:"name"`
	Docs    string `json:"docs" doc:"the page that documents the form"`
	Checked string `json:"checked" format:"date" doc:"when the form was compared with it"`
	Run     string `json:"run,omitempty" doc:"the version with which the form was run; none: it was compared with the documents alone"`
}

// A Guide is how one client is told of a gateway.
type Guide struct {
	Client
	Link    string   `json:"link,omitempty" doc:"opens the client, or its page, which asks there; none: it has none"`
	Label   string   `json:"label,omitempty" doc:"of the link"`
	Command string   `json:"command,omitempty" doc:"for a POSIX shell; none: it has none"`
	After   string   `json:"after,omitempty" doc:"the command that signs in, or shows what the client knows now"`
	Steps   string   `json:"steps,omitempty" doc:"what to do in the client itself"`
	Files   []File   `json:"files" nullable:"false" doc:"the first is the one to take"`
	Traps   []string `json:"traps" nullable:"false"`
	Token   Place    `json:"token,omitempty" enum:"variable,prompt,file" doc:"where the client has the token from; none: it takes none from a person"`
}

// A Place is where a client has its token from.
type Place string

// The places of a token.
const (
	InVariable Place = "variable" // of the environment
	InPrompt   Place = "prompt"   // of the client, which keeps it
	InFile     Place = "file"     // of the person alone
)

// A File is what a config file of a client has to hold. What else is there stays.
type File struct {
	Path    string `json:"path" doc:"with ~ for the home folder; of a project if it does not begin with one"`
	Windows string `json:"windows,omitempty" doc:"the path on Windows, where it is another one"`
	When    string `json:"when,omitempty" doc:"when to take this one"`
	Text    string `json:"text" doc:"the whole file, if there is nothing else in it"`
}

// ids are the clients that there are guides for, in the order in which they are shown.
var ids = []string{"claude-code", "claude", "cursor", "vscode", "codex", "gemini", "devin"}

// Clients returns the clients that there are guides for, in the order in which they are shown.
func Clients() []Client {
	out := make([]Client, len(ids))
	for i, id := range ids {
		out[i] = fill(id, Endpoint{}).Client
	}
	return out
}

// For returns the guide of the client with the id. An error says what is wrong with e, or that
// there is no such client.
func For(id string, e Endpoint) (Guide, error) {
	e, err := e.filled()
	if err != nil {
		return Guide{}, err
	}
	if !slices.Contains(ids, id) {
		return Guide{}, fmt.Errorf("no client is called %q", id)
	}
	return fill(id, e), nil
}
