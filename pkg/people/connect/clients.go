package connect

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// A server is an entry of a config file, of which each client reads other members.
type server struct {
	Name      string            `json:"name,omitempty"`
	Type      string            `json:"type,omitempty"`
	URL       string            `json:"url,omitempty"`
	HTTPURL   string            `json:"httpUrl,omitempty"`
	ServerURL string            `json:"serverUrl,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Inputs    []input           `json:"inputs,omitempty"`
}

// An input is what VS Code asks a person for, and keeps in the secret store of the machine.
type input struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}

// mcpServers is the file of most clients.
type mcpServers struct {
	Servers map[string]server `json:"mcpServers"`
}

func fileOf(e Endpoint, s server) string {
	return pretty(mcpServers{map[string]server{e.Name: s}})
}

// headers returns the header that carries the token, with what the client puts its text for; nil:
// none is sent.
func (e Endpoint) headers(placeholder string) map[string]string {
	if e.Auth != Bearer {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + placeholder}
}

// traps adds to the traps of a client that reads the token from its environment when it starts.
func (e Endpoint) traps(more ...string) []string {
	if e.Auth == Bearer {
		more = append(more, "The client reads "+e.Variable+" from the environment that it was started in: set it first, and start the client anew.")
	}
	return more
}

// forProject is when to take the file of a folder.
const forProject = "for everybody who works on a project"

func claudeCode(e Endpoint) Guide {
	reference := "${" + e.Variable + "}"
	words := []string{"claude", "mcp", "add", "--transport", "http", "--scope", "user", e.Name, e.URL}
	if e.Auth == Bearer {
		words = append(words, "--header", "Authorization: Bearer "+reference)
	}
	text := fileOf(e, server{Type: "http", URL: e.URL, Headers: e.headers(reference)})
	g := Guide{
		Command: shell(words...), After: shell("claude", "mcp", "get", e.Name),
		Files: []File{
			{Path: "~/.claude.json", When: "for you, in every folder", Text: text},
			{Path: ".mcp.json", When: forProject, Text: text},
		},
		Traps: e.traps("Without --transport http the URL is taken for a command.", "Claude Code asks each person once before it uses what stands in a project's .mcp.json."),
	}
	switch e.Auth {
	case Bearer:
		g.Traps = append(g.Traps, "The quotes around the header are single ones: the shell leaves "+reference+" as it is, so that no file holds the token.")
	case OAuth:
		g.Steps = "Start claude, type /mcp, choose " + e.Name + " and sign in."
	case None, Signed:
	}
	return g
}

// remote is the address that mcp-remote is given; it takes plain http beyond the machine only if told.
func (e Endpoint) remote() []string {
	args := []string{"-y", "mcp-remote", e.URL}
	if strings.HasPrefix(e.URL, "http:") && e.Reach() != Loopback {
		args = append(args, "--allow-http")
	}
	return args
}

func claudeDesktop(e Endpoint) Guide {
	const path, windows = "~/Library/Application Support/Claude/claude_desktop_config.json", `%APPDATA%\Claude\claude_desktop_config.json`
	npx := server{Command: "npx", Args: e.remote()}
	stdio := server{Command: "portcullis", Args: []string{"stdio", "--url", e.URL}}
	g := Guide{Traps: []string{
		"Claude Desktop connects to no URL that stands in claude_desktop_config.json: only programs are started from it.",
	}}
	if e.Auth == Bearer {
		npx.Args = append(npx.Args, "--header", "Authorization:${"+e.Variable+"_HEADER}")
		npx.Env = map[string]string{e.Variable + "_HEADER": "Bearer pct_…"}
		stdio.Env = map[string]string{"PORTCULLIS_TOKEN": "pct_…"}
		g.Token = InFile
		g.Traps = append(g.Traps,
			"Claude Desktop starts programs without the variables of your shell. Write the token in the place of pct_… in this one file, which is yours alone.",
			"There is no space after Authorization: on Windows Claude Desktop tears arguments apart at spaces.")
	}
	g.Files = []File{{Path: path, Windows: windows, When: "with Node.js", Text: fileOf(e, npx)}}
	if e.Auth == None || e.Auth == Bearer { // it signs in nowhere
		g.Files = append(g.Files, File{Path: path, Windows: windows, When: "with this program in the place of mcp-remote", Text: fileOf(e, stdio)})
	}
	var why string
	switch {
	case e.Reach() == Loopback:
		why = "it cannot reach a gateway on your own machine"
	case e.Reach() == Private:
		why = "it cannot reach a gateway in a private network"
	case strings.HasPrefix(e.URL, "http:"):
		why = "it connects by https alone"
	case e.Auth == Bearer:
		why = "a custom connector signs in by OAuth or not at all: it has no place for a token"
	case e.Auth == Signed:
		why = "it does not sign its requests for AWS"
	default:
		g.Link, g.Label = "https://claude.ai/customize/connectors", "Open the connectors of claude.ai"
		g.Steps = "Choose +, then Add custom connector. Name: " + e.Name + ". URL: " + e.URL
		g.Traps = append(g.Traps, "A connector is added once, and works in claude.ai and in Claude Desktop. In a Team or Enterprise plan an owner adds it.")
		return g
	}
	g.Traps = append([]string{"Connectors of claude.ai are connected from Anthropic's cloud, whichever app you use, and " + why + ". Claude Desktop can start a program instead that passes everything on."}, g.Traps...)
	return g
}

func cursor(e Endpoint) Guide {
	s := server{URL: e.URL, Headers: e.headers("${env:" + e.Variable + "}")}
	g := Guide{
		Link:  "cursor://anysphere.cursor-deeplink/mcp/install?name=" + url.QueryEscape(e.Name) + "&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(compact(s)))),
		Label: "Add to Cursor",
		Files: []File{{Path: "~/.cursor/mcp.json", Text: fileOf(e, s)}, {Path: ".cursor/mcp.json", When: forProject, Text: fileOf(e, s)}},
		Traps: e.traps("Cursor asks before it installs what a link names.", "Cursor has no command that adds a server."),
	}
	if e.Auth == Bearer {
		g.Traps = append(g.Traps, "A Cursor that is started from a dock or a menu may not have the variables of your shell. Then start it from a terminal.")
	}
	return g
}

func vsCode(e Endpoint) Guide {
	id := e.Name + "-token"
	s := server{Type: "http", URL: e.URL, Headers: e.headers("${input:" + id + "}")}
	var ask []input
	if e.Auth == Bearer {
		ask = []input{{"promptString", id, "Token of " + e.Name, true}}
	}
	whole := s
	whole.Name, whole.Inputs = e.Name, ask
	text := pretty(struct {
		Inputs  []input           `json:"inputs,omitempty"`
		Servers map[string]server `json:"servers"`
	}{ask, map[string]server{e.Name: s}})
	g := Guide{
		Link:    "vscode:mcp/install?" + strings.ReplaceAll(url.QueryEscape(compact(whole)), "+", "%20"),
		Label:   "Add to VS Code",
		Command: shell("code", "--add-mcp", compact(whole)),
		Files: []File{
			{Path: "~/Library/Application Support/Code/User/mcp.json", Windows: `%APPDATA%\Code\User\mcp.json`,
				When: "for you, in every folder; the command “MCP: Open User Configuration” opens it", Text: text},
			{Path: ".vscode/mcp.json", When: forProject, Text: text},
		},
		Traps: []string{"The entry stands under servers; mcpServers, as other clients have it, is not read."},
	}
	if e.Auth == Bearer {
		g.Token = InPrompt
		g.Traps = append(g.Traps, "VS Code asks for the token once and keeps it in the secret store of the machine.",
			"That --add-mcp takes inputs is in no document: if VS Code does not ask for the token, take the button or the file.")
	}
	return g
}

func codex(e Endpoint) Guide {
	words := []string{"codex", "mcp", "add", e.Name, "--url", e.URL}
	lines := []string{"[mcp_servers." + e.Name + "]", "url = " + tomlString(e.URL)}
	g := Guide{After: shell("codex", "mcp", "get", e.Name)}
	switch e.Auth {
	case Bearer:
		words = append(words, "--bearer-token-env-var", e.Variable)
		lines = append(lines, "bearer_token_env_var = "+tomlString(e.Variable))
		g.Traps = append(g.Traps, "A token in the file itself, as bearer_token, is refused.")
	case OAuth:
		g.After = shell("codex", "mcp", "login", e.Name)
	case None, Signed:
	}
	g.Command = shell(words...)
	g.Files = []File{{Path: "~/.codex/config.toml", Text: strings.Join(lines, "\n") + "\n"}}
	g.Traps = e.traps(append(g.Traps, "codex mcp list and get read the file and do not connect: the gateway sees Codex when a session begins.")...)
	return g
}

func gemini(e Endpoint) Guide {
	reference := "${" + e.Variable + "}"
	words := []string{"gemini", "mcp", "add", "--scope", "user", "--transport", "http"}
	if e.Auth == Bearer {
		words = append(words, "--header", "Authorization: Bearer "+reference)
	}
	g := Guide{
		Command: shell(append(words, e.Name, e.URL)...), After: shell("gemini", "mcp", "list"),
		Files: []File{{Path: "~/.gemini/settings.json", Text: fileOf(e, server{HTTPURL: e.URL, Headers: e.headers(reference)})}},
		Traps: e.traps(
			"The member is httpUrl: url without a type is taken for the older transport.",
			"In a folder that you have not told Gemini CLI to trust, every server is off.",
			"Since 18 June 2026 Gemini CLI serves Gemini API keys and the Standard and Enterprise editions of Code Assist; everybody else has Antigravity CLI, which takes over these servers. Its own form (agy mcp add, ~/.gemini/config/mcp_config.json) is not verified here.",
		),
	}
	if e.Auth == OAuth {
		g.Steps = "Start gemini and type /mcp auth " + e.Name + " to sign in."
	}
	return g
}

func devin(e Endpoint) Guide {
	headers := e.headers("${env:" + e.Variable + "}")
	g := Guide{
		Files: []File{
			{Path: "~/.config/devin/mcp_config.json", Windows: `%APPDATA%\devin\mcp_config.json`, When: "Devin Desktop", Text: fileOf(e, server{URL: e.URL, Headers: headers})},
			{Path: "~/.codeium/windsurf/mcp_config.json", Windows: `%USERPROFILE%\.codeium\windsurf\mcp_config.json`, When: "Windsurf, as it was called until June 2026", Text: fileOf(e, server{ServerURL: e.URL, Headers: headers})},
		},
		Traps: e.traps(
			"Sources differ: its own page names the second file, and integrators since the new name the first one. If the gateway sees nothing, write both. Neither was run here.",
			"It has links to servers of its marketplace alone, and no command that adds another.",
			"An agent there may have 100 tools at most. A gateway that searches shows six, however many are behind it.",
		),
	}
	if e.Auth == Bearer {
		g.Traps = append(g.Traps, "That ${env:…} is read in the first file is documented for the second alone.")
	}
	return g
}
