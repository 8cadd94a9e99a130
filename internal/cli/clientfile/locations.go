package clientfile

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// A Client is a program that keeps MCP servers in files. Paths are the paths on macOS;
// [Machine.Expand] returns the paths on other systems.
type Client struct {
	ID     string   // on the command line
	Also   []string // other names of the client
	Guide  string   // the client's id in package connect
	Holder string   // the member of the client's file that contains the servers

	// files with servers: the user's files begin with ~, the others belong to a project
	files []string
}

// Clients returns the clients with known files.
func Clients() []Client {
	const data = "~/Library/Application Support/"
	return []Client{
		{"claude-desktop", []string{"claude"}, "claude", "mcpServers", []string{
			data + "Claude/claude_desktop_config.json",
		}},
		{"claude-code", nil, "claude-code", "mcpServers", []string{"~/.claude.json", ".mcp.json"}},
		{"cursor", nil, "cursor", "mcpServers", []string{"~/.cursor/mcp.json", ".cursor/mcp.json"}},
		{"vscode", []string{"code"}, "vscode", "servers", []string{
			data + "Code/User/mcp.json", data + "Code/User/settings.json",
			".vscode/mcp.json", ".vscode/settings.json",
		}},
		{"codex", nil, "codex", "mcp_servers", []string{
			"~/.codex/config.toml", ".codex/config.toml",
		}},
		{"gemini", nil, "gemini", "mcpServers", []string{
			"~/.gemini/settings.json", ".gemini/settings.json",
		}},
		{"windsurf", []string{"devin"}, "devin", "mcpServers", []string{
			"~/.config/devin/mcp_config.json", "~/.codeium/windsurf/mcp_config.json",
		}},
	}
}

// Find returns the client with that name.
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

// errNoHome says that the user's home folder is unknown.
var errNoHome = errors.New("HOME is not set, so it is not known where the client keeps " +
	"its files: name the file")

// Home returns the user's home folder.
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

// appData returns the folder of programs' data for the user on each system.
func (m Machine) appData(home string) string {
	switch m.OS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support")
	case "windows":
		return cmp.Or(m.Getenv("APPDATA"), filepath.Join(home, "AppData", "Roaming"))
	}
	return cmp.Or(m.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
}

// IsOwn reports whether the file at path is a client's own file of the user. If it is not, another
// person may have written the file.
func (m Machine) IsOwn(path string) bool {
	return slices.ContainsFunc(Clients(), func(c Client) bool {
		own, _, err := m.Files(c)
		return err == nil && slices.Contains(own, path)
	})
}

// Files returns where the client looks for servers: the user's own files and the project's files.
func (m Machine) Files(c Client) (own, project []string, err error) {
	for _, path := range c.files {
		file, err := m.Expand(path)
		switch {
		case err != nil:
			return nil, nil, err
		case strings.HasPrefix(path, "~"):
			own = append(own, file)
		default:
			project = append(project, file)
		}
	}
	return own, project, nil
}

// Expand returns the path of a client's file. path is the path on macOS, or relative to the
// project.
func (m Machine) Expand(path string) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return filepath.Join(m.Dir, filepath.FromSlash(path)), nil
	}
	home, err := m.Home()
	if err != nil {
		return "", err
	}
	devin := ""
	if m.OS == "windows" {
		devin = m.appData(home)
	}
	for prefix, folder := range map[string]string{
		"~/Library/Application Support/": m.appData(home),
		"~/.config/":                     devin,
		"~/.codex/":                      m.Getenv("CODEX_HOME"),
		"~/.claude.json":                 m.Getenv("CLAUDE_CONFIG_DIR"),
	} {
		if folder != "" && strings.HasPrefix(path, prefix) {
			rest := path[strings.LastIndex(prefix, "/"):]
			return filepath.Join(folder, filepath.FromSlash(rest)), nil
		}
	}
	return filepath.Join(home, filepath.FromSlash(path[1:])), nil
}
