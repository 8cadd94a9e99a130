// Package connect explains how to add a gateway to each MCP client: by a link, a command or a file.
//
// Each client has its own config format, which its authors change about twice a year. So each guide
// names the page that documents the client's config format, and the day on which it was last
// compared with that page. If a registry has the client, the tests also run the client with the
// guide ([Client.Run]).
//
// No guide contains a credential, because people share links and project files. A guide has the
// name of the environment variable with the credential. [Visits] records which clients have
// connected.
package connect

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
)

// An Auth is a way in which callers authenticate.
type Auth string

// The ways of authentication that a client must distinguish.
const (
	None   Auth = "none"   // no authentication
	Bearer Auth = "bearer" // a token, which the client reads from an environment variable
	OAuth  Auth = "oauth"  // a token, which the client gets from the issuer
	Signed Auth = "signed" // a signature with AWS credentials
)

// The default names of the entry and of the environment variable of an [Endpoint].
const (
	DefaultName     = "portcullis"
	DefaultVariable = "PCT"
)

// An Endpoint is the address and the settings that a client needs.
type Endpoint struct {
	URL      string // address with its path: https://gate.example.com/mcp/x/triage
	Auth     Auth
	Name     string // name of the entry in the client's config; empty means DefaultName
	Variable string // environment variable with the token; empty means DefaultVariable
}

var (
	entryName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// withDefaults returns e with its defaults, or an error that names the fault.
func (e Endpoint) withDefaults() (Endpoint, error) {
	e.Name, e.Variable, e.Auth = cmp.Or(e.Name, DefaultName), cmp.Or(e.Variable, DefaultVariable), cmp.Or(e.Auth, None)
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "":
		return e, fmt.Errorf("%q is not the address of a gateway: want https://HOST/mcp", e.URL)
	case !entryName.MatchString(e.Name):
		return e, fmt.Errorf("name %q: want 1 to 64 letters, digits, _ and -, the first a letter or digit", e.Name)
	case !variableName.MatchString(e.Variable):
		return e, fmt.Errorf("environment variable %q: want letters, digits and _", e.Variable)
	case !slices.Contains([]Auth{None, Bearer, OAuth, Signed}, e.Auth):
		return e, fmt.Errorf("authentication %q is unknown", e.Auth)
	}
	e.URL = u.String()
	return e, nil
}

// A Client is a program that agents run in.
type Client struct {
	ID      string `json:"id"` // part of addresses: claude-code
	Name    string `json:"name"`
	Docs    string `json:"docs" doc:"the page that documents the form"`
	Checked string `json:"checked" format:"date" doc:"day on which the guide was compared with that page"`
	Run     string `json:"run,omitempty" doc:"version of the client with which the tests ran the guide; absent if the guide was only compared with the documentation"`
}

// A Guide explains how to add a gateway to one client.
type Guide struct {
	Client
	Link    string   `json:"link,omitempty" doc:"opens the client or its page, which asks for confirmation; absent if the client has none"`
	Label   string   `json:"label,omitempty" doc:"label of the link"`
	Command string   `json:"command,omitempty" doc:"command for a POSIX shell; absent if the client has none"`
	After   string   `json:"after,omitempty" doc:"command that signs in, or shows the entry in the client"`
	Steps   string   `json:"steps,omitempty" doc:"steps in the client"`
	Files   []File   `json:"files" nullable:"false" doc:"files for the entry; use the first"`
	Traps   []string `json:"traps" nullable:"false"`
	Token   Place    `json:"token,omitempty" enum:"variable,prompt,file" doc:"where the client reads the token; absent if it needs none from a person"`
}

// A Place is where a client reads its token.
type Place string

// The places of a token.
const (
	InVariable Place = "variable" // an environment variable
	InPrompt   Place = "prompt"   // a prompt of the client, which stores the token
	InFile     Place = "file"     // a file of the person, never of a project
)

// A File is the entry for a config file of a client. The other entries of the file remain.
type File struct {
	Path    string `json:"path" doc:"begins with ~ for the home folder; otherwise it is in a project"`
	Windows string `json:"windows,omitempty" doc:"path on Windows, if it differs"`
	When    string `json:"when,omitempty" doc:"when to use this file"`
	Text    string `json:"text" doc:"the whole file, if it has no other entry"`
}

// ids are the clients with guides, in the order of display.
var ids = []string{"claude-code", "claude", "cursor", "vscode", "codex", "gemini", "devin"}

// Clients returns the clients with guides, in the order of display.
func Clients() []Client {
	out := make([]Client, len(ids))
	for i, id := range ids {
		out[i] = fill(id, Endpoint{}).Client
	}
	return out
}

// For returns the guide of the client with the id. It fails if e is invalid or the client is
// unknown.
func For(id string, e Endpoint) (Guide, error) {
	e, err := e.withDefaults()
	if err != nil {
		return Guide{}, err
	}
	if !slices.Contains(ids, id) {
		return Guide{}, fmt.Errorf("no client has the name %q", id)
	}
	return fill(id, e), nil
}
