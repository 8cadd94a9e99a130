package clientfile

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// A Client is a program that keeps MCP servers in files.
type Client struct {
	ID    string   // on the command line
	Also  []string // other names of it
	Guide string   // its id in package connect
}

// Clients returns the clients whose files are known.
func Clients() []Client {
	return []Client{
		{"claude-desktop", []string{"claude"}, "claude"},
		{"claude-code", nil, "claude-code"},
		{"cursor", nil, "cursor"},
		{"vscode", []string{"code"}, "vscode"},
		{"codex", nil, "codex"},
		{"gemini", nil, "gemini"},
		{"windsurf", []string{"devin"}, "devin"},
	}
}

// Find returns the client of that name.
func Find(name string) (Client, bool) {
	for _, c := range Clients() {
		if c.ID == name || slices.Contains(c.Also, name) {
			return c, true
		}
	}
	return Client{}, false
}

// A Machine says where a client looks for its files.
type Machine struct {
	OS     string // as runtime.GOOS
	Getenv func(name string) string
	Dir    string // the folder of the project
}

// errNoHome says that a machine does not tell where its user keeps files.
var errNoHome = errors.New("HOME is not set, so it is not known where the client keeps its files: name the file")

// Home returns the user's own folder.
func (m Machine) Home() (string, error) {
	home := m.Getenv("HOME")
	if m.OS == "windows" {
		home = cmp.Or(m.Getenv("USERPROFILE"), home)
	}
	if !filepath.IsAbs(home) {
		return "", errNoHome
	}
	return home, nil
}

// appData returns where programs keep what is the user's: as they do on each system.
func (m Machine) appData(home string) string {
	switch m.OS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support")
	case "windows":
		return cmp.Or(m.Getenv("APPDATA"), filepath.Join(home, "AppData", "Roaming"))
	}
	return cmp.Or(m.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
}

// IsOwn reports whether a client keeps a file for the user. Somebody else may have written any other
// file.
func (m Machine) IsOwn(path string) bool {
	for _, c := range Clients() {
		if own, _, err := m.Files(c); err == nil && slices.Contains(own, path) {
			return true
		}
	}
	return false
}

// Files returns where the client looks for servers: the user's own files and the project's files.
func (m Machine) Files(c Client) (own, project []string, err error) {
	home, err := m.Home()
	if err != nil {
		return nil, nil, err
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	here := func(parts ...string) string { return filepath.Join(append([]string{m.Dir}, parts...)...) }
	data := m.appData(home)
	switch c.ID {
	case "claude-desktop":
		return []string{filepath.Join(data, "Claude", "claude_desktop_config.json")}, nil, nil
	case "claude-code":
		folder := cmp.Or(m.Getenv("CLAUDE_CONFIG_DIR"), home)
		return []string{filepath.Join(folder, ".claude.json")}, []string{here(".mcp.json")}, nil
	case "cursor":
		return []string{at(".cursor", "mcp.json")}, []string{here(".cursor", "mcp.json")}, nil
	case "vscode":
		user := filepath.Join(data, "Code", "User")
		own = []string{filepath.Join(user, "mcp.json"), filepath.Join(user, "settings.json")}
		return own, []string{here(".vscode", "mcp.json"), here(".vscode", "settings.json")}, nil
	case "codex":
		own = []string{filepath.Join(cmp.Or(m.Getenv("CODEX_HOME"), at(".codex")), "config.toml")}
		return own, []string{here(".codex", "config.toml")}, nil
	case "gemini":
		own = []string{at(".gemini", "settings.json")}
		return own, []string{here(".gemini", "settings.json")}, nil
	case "windsurf":
		devin := at(".config", "devin", "mcp_config.json")
		if m.OS == "windows" {
			devin = filepath.Join(data, "devin", "mcp_config.json")
		}
		return []string{devin, at(".codeium", "windsurf", "mcp_config.json")}, nil, nil
	}
	return nil, nil, nil
}

// Expand returns where a file of a client lies that a guide names: with ~ or %APPDATA% for the user's folders,
// or within the project.
func (m Machine) Expand(path, windows string) (string, error) {
	if m.OS == "windows" && windows != "" {
		path = windows
	}
	own := strings.HasPrefix(path, "~") || strings.HasPrefix(path, "%")
	if !own {
		return filepath.Join(m.Dir, filepath.FromSlash(path)), nil
	}
	home, err := m.Home()
	if err != nil {
		return "", err
	}
	for prefix, folder := range map[string]string{
		"~/Library/Application Support/": m.appData(home), `%APPDATA%\`: m.appData(home), `%USERPROFILE%\`: home,
		"~/.codex/":      cmp.Or(m.Getenv("CODEX_HOME"), filepath.Join(home, ".codex")),
		"~/.claude.json": filepath.Join(cmp.Or(m.Getenv("CLAUDE_CONFIG_DIR"), home), ".claude.json"),
	} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return filepath.Join(folder, filepath.FromSlash(strings.ReplaceAll(rest, `\`, "/"))), nil
		}
	}
	return filepath.Join(home, filepath.FromSlash(strings.TrimPrefix(path, "~"))), nil
}

// Holder returns the member of the client's file that its servers stand in.
func (c Client) Holder() string {
	switch c.ID {
	case "vscode":
		return "servers"
	case "codex":
		return "mcp_servers"
	}
	return "mcpServers"
}
