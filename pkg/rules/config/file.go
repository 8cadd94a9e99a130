package config

// The types below are mcp_config.json as it is written. [Parse] reads into
// them and [Schema] is generated from them, so the two cannot part. A pointer or
// a nil slice tells an absent key from one that says the zero value.

// A file is the whole of mcp_config.json.
type file struct {
	Schema   string                 `json:"$schema,omitempty" jsonschema_description:"The JSON Schema of this file, for editors. The gateway does not read it."`
	Servers  map[string]*fileServer `json:"mcpServers" jsonschema_description:"The upstream MCP servers by name. A name is 1 to 128 of A-Z a-z 0-9 _ . - and is also a toolset."`
	Toolsets map[string][]string    `json:"toolsets,omitempty" jsonschema_description:"Named groups: each a list of server:tool or server:* (tools), server:prompt:name and server:resource:uri, the last two also as globs. Names fold case and may not be a server's name."`
	Tools    *fileTools             `json:"tools,omitempty" jsonschema_description:"Which toolsets and tools are offered at all. A request can only narrow this."`
	Review   *fileReview            `json:"review,omitempty" jsonschema_description:"What counts beside people's decisions of now."`
	Gateway  *fileGateway           `json:"gateway,omitempty" jsonschema_description:"How the gateway answers."`
	Audit    *fileAudit             `json:"audit,omitempty" jsonschema_description:"What is kept of calls."`
	Stop     *fileStop              `json:"stop,omitempty" jsonschema_description:"What is stopped: nobody calls it, whatever else says so. Agents find the tools as before, as server_disabled. What people stop at /admin/stop counts besides."`
	Notify   []fileNotify           `json:"notify,omitempty" jsonschema:"maxItems=20" jsonschema_description:"Where people are told that something waits for them: names and links only."`
	Words    map[string][]string    `json:"words,omitempty" jsonschema_description:"What tools are found by besides what their servers say: brands, other languages, jargon of the house. By server:tool, server:* or another glob after the colon, a list each. Searched, never shown to agents, and no part of what is approved."`
}

// A fileServer is one member of mcpServers.
type fileServer struct {
	Type              *string              `json:"type,omitempty" jsonschema:"enum=http,enum=streamable-http,enum=sse,enum=stdio" jsonschema_description:"The transport, as client configs name it: http or streamable-http of a server with a url, where sse is taken for them, stdio of one with a command."`
	Transport         *string              `json:"transport,omitempty" jsonschema_description:"The same as type, as some programs name it."`
	TransportType     *string              `json:"transportType,omitempty" jsonschema_description:"The same as type, as some programs name it."`
	URL               *string              `json:"url,omitempty" jsonschema:"pattern=^https?://" jsonschema_description:"The server's MCP endpoint: http or https, without user and password."`
	Command           *string              `json:"command,omitempty" jsonschema:"minLength=1" jsonschema_description:"The program that is the server, in the place of a url. It is started by portcullis serve --allow-commands alone, never on AWS."`
	Args              []string             `json:"args,omitempty" jsonschema_description:"Its arguments. They reach it as they are: nothing is replaced."`
	Env               map[string]string    `json:"env,omitempty" jsonschema_description:"Its environment beside what it has of the gateway's: PATH, HOME, LANG, TMPDIR, the variables for proxies, certificates and registries, and those of gateway.programs.env. A value may hold ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}."`
	Cwd               *string              `json:"cwd,omitempty" jsonschema_description:"Its working directory; without it that of the gateway."`
	Headers           map[string]string    `json:"headers,omitempty" jsonschema_description:"HTTP headers of each request to the server. A value may hold ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}."`
	Enabled           *bool                `json:"enabled,omitempty" jsonschema:"default=true" jsonschema_description:"false: the server is not asked, and its tools are shown as server_disabled."`
	Disabled          *bool                `json:"disabled,omitempty" jsonschema_description:"The opposite of enabled, as some programs write it."`
	EnabledTools      []string             `json:"enabled_tools,omitempty" jsonschema_description:"Only these tools are callable, as globs over names without the server; empty: all."`
	DisabledTools     []string             `json:"disabled_tools,omitempty" jsonschema_description:"These tools are denied, as globs over names without the server."`
	Approval          *string              `json:"approval,omitempty" jsonschema:"enum=manual,enum=on_change,enum=off,default=on_change" jsonschema_description:"manual: every tool waits for a person. on_change: the first list is the baseline, changes wait. off: nothing waits."`
	Resources         *string              `json:"resources,omitempty" jsonschema:"enum=manual,enum=on_change,enum=off" jsonschema_description:"What approval says, of prompts and resources; if it is missing, approval counts for them too."`
	DisabledPrompts   []string             `json:"disabled_prompts,omitempty" jsonschema_description:"These prompts are denied, as globs over names without the server."`
	DisabledResources []string             `json:"disabled_resources,omitempty" jsonschema_description:"These resources and templates are denied, as globs over URIs and URI templates."`
	UnlistedResources *bool                `json:"unlisted_resources,omitempty" jsonschema:"default=false" jsonschema_description:"true: at the server's own endpoint, /mcp/x/{server}, URIs can be read that the server never listed, such as links in its results."`
	Timeout           *string              `json:"timeout,omitempty" jsonschema:"default=20s" jsonschema_description:"The longest that one call may take, as a duration such as 1500ms, 20s or 5m; at most 10m, and at most 20s where the gateway cannot stream its answers."`
	Required          *bool                `json:"required,omitempty" jsonschema:"default=false" jsonschema_description:"true: a sync in which this server did not load fails, and the old catalog stays."`
	BehindProxy       *string              `json:"behind_proxy,omitempty" jsonschema:"enum=envoy" jsonschema_description:"The proxy in front of the server, whose headers then tell an authorization outage from a denial."`
	Session           *string              `json:"session,omitempty" jsonschema:"enum=agent,enum=shared,default=agent" jsonschema_description:"Where the server keeps sessions: agent: each agent, and each user of an agent, has one of its own. shared: all agents have one together, and each meets what the others left there."`
	Protocol          *string              `json:"protocol,omitempty" jsonschema:"enum=auto,enum=2025-11-25,default=auto" jsonschema_description:"auto: the newest protocol that the server speaks. 2025-11-25: a protocol with a handshake, that one or older, also if the server speaks a newer one."`
	Elicitation       *string              `json:"elicitation,omitempty" jsonschema:"enum=relay,enum=replay,enum=off,default=relay" jsonschema_description:"What the server may ask the client while a tool runs: relay: what the gateway can pass on. replay: also where no call can be held open; a tool that is read-only or idempotent is then called again with the answer. off: nothing."`
	Annotations       map[string]fileHints `json:"annotations,omitempty" jsonschema_description:"Hints that replace the server's own, by glob over names without the server. Every match applies, a later one wins."`
}

// fileHints are the annotations that an operator may set.
type fileHints struct {
	Title           *string `json:"title,omitempty" jsonschema_description:"The tool's title."`
	ReadOnlyHint    *bool   `json:"readOnlyHint,omitempty" jsonschema_description:"true: the tool changes nothing, and its tier is read."`
	DestructiveHint *bool   `json:"destructiveHint,omitempty" jsonschema_description:"false: what the tool changes can be undone, and its tier is write unless it is read-only."`
	IdempotentHint  *bool   `json:"idempotentHint,omitempty" jsonschema_description:"true: a second identical call changes nothing more."`
	OpenWorldHint   *bool   `json:"openWorldHint,omitempty" jsonschema_description:"true: the tool reaches beyond the server, such as the web."`
}

// fileTools is the member tools.
type fileTools struct {
	Toolsets []string `json:"toolsets,omitempty" jsonschema:"default=all" jsonschema_description:"The toolsets that are offered: all, a toolset's name or a server's name; [] is none."`
	Enabled  []string `json:"enabled,omitempty" jsonschema_description:"Tools that are offered besides: server:tool, server:* or a name that only one server has; also server:prompt:name and server:resource:uri, both also as globs."`
	Disabled []string `json:"disabled,omitempty" jsonschema_description:"Tools that are denied: server:tool, server:* or a name, which then is denied on every server; also server:prompt:name and server:resource:uri, both also as globs."`
	Confirm  []string `json:"confirm,omitempty" jsonschema_description:"Tools of which each call waits for a person, who is shown its arguments: server:tool, server:* or another glob after the colon. What is confirmed can be called once."`
	ReadOnly *bool    `json:"read_only,omitempty" jsonschema:"default=false" jsonschema_description:"true: only tools that are read-only are offered."`
}

// fileReview is the member review.
type fileReview struct {
	Remember *string `json:"remember,omitempty" jsonschema:"enum=ask,enum=auto,default=ask" jsonschema_description:"Of a definition that a server goes back to and that a person approved earlier: ask: it waits, and people are told who approved it when. auto: it is approved again."`
	Findings *string `json:"findings,omitempty" jsonschema:"enum=show,enum=wait,default=show" jsonschema_description:"Of a definition with a severe finding: show: people see it. wait: the tool also waits until a person approves that very definition, whatever approval says."`
	FourEyes *string `json:"four_eyes,omitempty" jsonschema:"enum=off,enum=destructive,enum=all,default=off" jsonschema_description:"all: two people approve each definition of every tool, prompt and resource, and both sign in with the issuer. destructive: only tools of that tier take two people, and the server itself sets the hint that decides the tier, unless annotations sets it. If people do not sign in with an issuer, nobody can approve these definitions."`
}

// fileAudit is the member audit.
type fileAudit struct {
	Arguments *string `json:"arguments,omitempty" jsonschema:"enum=none,enum=redacted,default=none" jsonschema_description:"none: of the arguments of a call only a hash is kept. redacted: also which there were, with the lengths of their texts in the place of the texts."`
	Required  *bool   `json:"required,omitempty" jsonschema:"default=false" jsonschema_description:"true: a call whose line cannot be written is refused. On one machine alone."`
	Days      *int    `json:"days,omitempty" jsonschema:"minimum=1,maximum=36500,default=30" jsonschema_description:"How many days the files of the audit are kept on one machine. What was decided about tools is kept apart from them."`
	MaxBytes  *int64  `json:"max_bytes,omitempty" jsonschema:"minimum=16777216,default=10737418240" jsonschema_description:"How many bytes the files of the audit may have together on one machine. At the limit calls are refused if required is true; else the oldest day is removed."`
}

// fileStop is the member stop.
type fileStop struct {
	All     *bool    `json:"all,omitempty" jsonschema:"default=false" jsonschema_description:"true: everything is stopped."`
	Servers []string `json:"servers,omitempty" jsonschema_description:"Names of servers that are stopped."`
	Agents  []string `json:"agents,omitempty" jsonschema_description:"Ids of agents that are stopped, such as token:ci: they are refused."`
	Reason  *string  `json:"reason,omitempty" jsonschema_description:"Why, in one line; agents are told it."`
}

// A fileNotify is one target of notify.
type fileNotify struct {
	Type   *string  `json:"type" jsonschema:"enum=slack,enum=webhook,enum=sns" jsonschema_description:"slack: an incoming webhook of Slack. webhook: a signed POST as of Standard Webhooks. sns: a topic of Amazon SNS, such as for e-mail."`
	URL    *string  `json:"url,omitempty" jsonschema_description:"Of slack and webhook: where is sent to; a reference ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}, or https."`
	Secret *string  `json:"secret,omitempty" jsonschema_description:"Of webhook: what is signed with, whsec_ and base64, or a reference to it."`
	Topic  *string  `json:"topic,omitempty" jsonschema:"pattern=^arn:aws" jsonschema_description:"Of sns: the topic's ARN. Sent by the functions on AWS alone."`
	Events []string `json:"events,omitempty" jsonschema:"minItems=1,enum=changed,enum=new,enum=request,enum=decided,enum=server_down,enum=config_refused" jsonschema_description:"What this target is told; without it everything."`
}

// fileGateway is the member gateway.
type fileGateway struct {
	Mode     *string `json:"mode,omitempty" jsonschema:"enum=search,enum=direct,default=search" jsonschema_description:"search: agents see six tools and find the rest. direct: agents see the tools themselves, as server__tool."`
	Prefix   *bool   `json:"prefix,omitempty" jsonschema:"default=true" jsonschema_description:"false: direct mode shows the tools of the one server under their own names."`
	Notice   *string `json:"notice,omitempty" jsonschema:"enum=best,enum=zero,default=best" jsonschema_description:"When an answer hints at locked tools unasked: best: if no callable tool matched or a locked one matched better than all of them. zero: only if no callable tool matched."`
	Locked   *string `json:"locked,omitempty" jsonschema:"enum=error,enum=result,default=error" jsonschema_description:"How the call of a locked tool is answered: error: with isError. result: with the same text and without isError, for clients that count errors."`
	Requests *bool   `json:"requests,omitempty" jsonschema_description:"Whether agents may ask for what is locked, so that a person decides: in search mode by one more tool, request_access, and by a link or their client's dialog. Default: true where an approver can sign in at /admin, otherwise false."`
	Ranking  *string `json:"ranking,omitempty" jsonschema:"enum=fused,enum=lexical,default=fused" jsonschema_description:"fused: by words and meaning. lexical: by words alone."`
	Answers  *string `json:"answers,omitempty" jsonschema:"enum=json,enum=lines,default=json" jsonschema_description:"The form of what retrieve_tools finds: json, or lines: one line for each tool, which takes fewer tokens."`

	Programs *filePrograms `json:"programs,omitempty" jsonschema_description:"Settings of all servers that are programs."`
}

// filePrograms is the member programs of gateway.
type filePrograms struct {
	MaxPerAgent *int `json:"max_per_agent,omitempty" jsonschema:"minimum=1,maximum=64,default=24" jsonschema_description:"How many processes run for one agent at most, over all servers. Where every caller is one agent, as with PORTCULLIS_AUTH=none: for one client session. When an agent needs one more, its longest idle process ends."`

	Env []string `json:"env,omitempty" jsonschema:"pattern=^[A-Za-z_][A-Za-z0-9_]*$" jsonschema_description:"Names of variables of the gateway that every program has, beside those for proxies, certificates and registries. The env of a server wins."`
}
