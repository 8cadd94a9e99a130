package config

// The types below have the form of mcp_config.json. [Parse] reads into them and [Schema] is
// generated from them, so the two cannot differ. A pointer or a nil slice distinguishes an absent
// key from a zero value.

// A file is a whole mcp_config.json.
type file struct {
	Schema   string                 `json:"$schema,omitempty" jsonschema_description:"The JSON Schema of this file, for editors. The gateway does not read it."`
	Servers  map[string]*fileServer `json:"mcpServers" jsonschema_description:"The upstream MCP servers by name. A name is 1 to 128 of A-Z a-z 0-9 _ . - and is also a toolset."`
	Toolsets map[string][]string    `json:"toolsets,omitempty" jsonschema_description:"Named groups: each a list of server:tool or server:* (tools), server:prompt:name and server:resource:uri, the last two also as globs. Two names must differ in more than case, and may not be a server's name."`
	Tools    *fileTools             `json:"tools,omitempty" jsonschema_description:"Which toolsets and tools are offered at all. A request can only narrow this."`
	Review   *fileReview            `json:"review,omitempty" jsonschema_description:"Rules about approvals, in addition to the decisions of people."`
	Gateway  *fileGateway           `json:"gateway,omitempty" jsonschema_description:"How the gateway answers."`
	Audit    *fileAudit             `json:"audit,omitempty" jsonschema_description:"What the gateway keeps about calls."`
	Stop     *fileStop              `json:"stop,omitempty" jsonschema_description:"Emergency stops of servers, agents or everything. They override all other settings. Agents still find the tools, as server_disabled. Stops at /admin/stop count in addition."`
	Notify   []fileNotify           `json:"notify,omitempty" jsonschema:"maxItems=20" jsonschema_description:"Where people get notices that something waits for them: names and links only."`
	Config   *fileConfig            `json:"config,omitempty" jsonschema_description:"Where people change this file."`
	Words    map[string][]string    `json:"words,omitempty" jsonschema_description:"More words that find a tool, in addition to its server's texts: brands, other languages, your own jargon. A list for each server:tool, server:* or another glob after the colon. They are searched, never shown to agents, and no part of what people approve."`
}

// A fileServer is one member of mcpServers.
type fileServer struct {
	Type              *string              `json:"type,omitempty" jsonschema:"enum=http,enum=streamable-http,enum=sse,enum=stdio" jsonschema_description:"The transport, as client configs name it: http or streamable-http for a server with a url, where sse means the same, and stdio for a server with a command."`
	Transport         *string              `json:"transport,omitempty" jsonschema_description:"The same as type, as some programs name it."`
	TransportType     *string              `json:"transportType,omitempty" jsonschema_description:"The same as type, as some programs name it."`
	URL               *string              `json:"url,omitempty" jsonschema:"pattern=^https?://" jsonschema_description:"The server's MCP endpoint: http or https, without user and password."`
	Command           *string              `json:"command,omitempty" jsonschema:"minLength=1" jsonschema_description:"The program that is the server, instead of a url. Only portcullis serve --allow-commands starts it, never AWS."`
	Args              []string             `json:"args,omitempty" jsonschema_description:"The arguments of the program. The program gets them unchanged: the gateway replaces nothing."`
	Env               map[string]string    `json:"env,omitempty" jsonschema_description:"The environment of the program, in addition to these variables of the gateway: PATH, HOME, LANG, TMPDIR, the variables for proxies, certificates and registries, and the names in gateway.programs.env. A value may hold ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}."`
	Cwd               *string              `json:"cwd,omitempty" jsonschema_description:"The working directory of the program; the default is the gateway's."`
	Headers           map[string]string    `json:"headers,omitempty" jsonschema_description:"HTTP headers of each request to the server. A value may hold ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}."`
	Auth              *fileAuth            `json:"auth,omitempty" jsonschema_description:"How the gateway signs in to a server that requires OAuth. Without it the gateway uses the metadata of the server."`
	Enabled           *bool                `json:"enabled,omitempty" jsonschema:"default=true" jsonschema_description:"false: the gateway does not use the server, and shows its tools as server_disabled."`
	Disabled          *bool                `json:"disabled,omitempty" jsonschema_description:"The opposite of enabled, as some programs write it."`
	EnabledTools      []string             `json:"enabled_tools,omitempty" jsonschema_description:"Only these tools are callable, as globs over names without the server; empty: all."`
	DisabledTools     []string             `json:"disabled_tools,omitempty" jsonschema_description:"These tools are denied, as globs over names without the server."`
	Approval          *string              `json:"approval,omitempty" jsonschema:"enum=manual,enum=on_change,enum=off,default=on_change" jsonschema_description:"manual: every tool waits for a person. on_change: the first list is the baseline, changes wait. off: nothing waits."`
	Resources         *string              `json:"resources,omitempty" jsonschema:"enum=manual,enum=on_change,enum=off" jsonschema_description:"The same as approval, for prompts and resources. The default is the value of approval."`
	DisabledPrompts   []string             `json:"disabled_prompts,omitempty" jsonschema_description:"These prompts are denied, as globs over names without the server."`
	DisabledResources []string             `json:"disabled_resources,omitempty" jsonschema_description:"These resources and templates are denied, as globs over URIs and URI templates."`
	UnlistedResources *bool                `json:"unlisted_resources,omitempty" jsonschema:"default=false" jsonschema_description:"true: at the server's own endpoint, /mcp/x/{server}, agents can read URIs that the server never listed, such as links in its results."`
	Timeout           *string              `json:"timeout,omitempty" jsonschema:"default=20s" jsonschema_description:"The longest that one call may take, as a duration such as 1500ms, 20s or 5m; at most 10m, and at most 20s where the gateway cannot stream its answers."`
	Required          *bool                `json:"required,omitempty" jsonschema:"default=false" jsonschema_description:"true: if this server does not load, the sync fails and the old catalog stays."`
	BehindProxy       *string              `json:"behind_proxy,omitempty" jsonschema:"enum=envoy" jsonschema_description:"The proxy in front of the server. Its headers distinguish an authorization outage from a denial."`
	Session           *string              `json:"session,omitempty" jsonschema:"enum=agent,enum=shared,default=agent" jsonschema_description:"For a server that keeps sessions. agent: each agent, and each user of an agent, has its own session. shared: all agents share one session, and each sees what the others left there."`
	Protocol          *string              `json:"protocol,omitempty" jsonschema:"enum=auto,enum=2025-11-25,default=auto" jsonschema_description:"auto: the newest protocol that the server speaks. 2025-11-25: this handshake protocol or an older one, even if the server speaks a newer one."`
	Elicitation       *string              `json:"elicitation,omitempty" jsonschema:"enum=relay,enum=replay,enum=off,default=relay" jsonschema_description:"What the server may ask the client while a tool runs. relay: what the gateway can pass on. replay: also for clients whose calls cannot be held open; the gateway then calls a read-only or idempotent tool again with the answer. off: nothing."`
	Annotations       map[string]fileHints `json:"annotations,omitempty" jsonschema_description:"Hints that replace the server's own, by glob over names without the server. Every match applies, and a later one wins."`
}

// fileHints are the annotations that an operator may set.
type fileHints struct {
	Title           *string `json:"title,omitempty" jsonschema_description:"The tool's title."`
	ReadOnlyHint    *bool   `json:"readOnlyHint,omitempty" jsonschema_description:"true: the tool changes nothing, and its tier is read."`
	DestructiveHint *bool   `json:"destructiveHint,omitempty" jsonschema_description:"false: the tool's changes can be undone, and its tier is write unless it is read-only."`
	IdempotentHint  *bool   `json:"idempotentHint,omitempty" jsonschema_description:"true: a second identical call changes nothing more."`
	OpenWorldHint   *bool   `json:"openWorldHint,omitempty" jsonschema_description:"true: the tool reaches beyond the server, such as the web."`
}

// fileTools is the member tools.
type fileTools struct {
	Toolsets []string `json:"toolsets,omitempty" jsonschema:"default=all" jsonschema_description:"The toolsets that the gateway offers: all, a toolset's name or a server's name; [] means none."`
	Enabled  []string `json:"enabled,omitempty" jsonschema_description:"Tools that the gateway offers in addition: server:tool, server:* or a name that only one server has; also server:prompt:name and server:resource:uri, both also as globs."`
	Disabled []string `json:"disabled,omitempty" jsonschema_description:"Denied tools: server:tool, server:* or a name, which denies it on every server; also server:prompt:name and server:resource:uri, both also as globs."`
	Confirm  []string `json:"confirm,omitempty" jsonschema_description:"Tools whose every call waits for a person, who sees its arguments: server:tool, server:* or another glob after the colon. A confirmation allows one call."`
	ReadOnly *bool    `json:"read_only,omitempty" jsonschema:"default=false" jsonschema_description:"true: the gateway offers only read-only tools."`
}

// fileReview is the member review.
type fileReview struct {
	Remember *string `json:"remember,omitempty" jsonschema:"enum=ask,enum=auto,default=ask" jsonschema_description:"For a definition that a server returns to and that a person approved earlier. ask: it waits, and people see who approved it and when. auto: it is approved again."`
	Findings *string `json:"findings,omitempty" jsonschema:"enum=show,enum=wait,default=show" jsonschema_description:"For a definition with a severe finding. show: people see it. wait: the tool also waits until a person approves this definition, for every value of approval."`
	FourEyes *string `json:"four_eyes,omitempty" jsonschema:"enum=off,enum=destructive,enum=all,default=off" jsonschema_description:"all: two people approve each definition of every tool, prompt and resource, and both sign in with the issuer. destructive: only tools of that tier take two people, and the server itself sets the hint that decides the tier, unless annotations sets it. If people do not sign in with an issuer, nobody can approve these definitions."`
}

// fileAudit is the member audit.
type fileAudit struct {
	Arguments *string `json:"arguments,omitempty" jsonschema:"enum=none,enum=redacted,default=none" jsonschema_description:"none: the gateway keeps only a hash of a call's arguments. redacted: it also keeps their names, with the lengths of texts instead of the texts."`
	Required  *bool   `json:"required,omitempty" jsonschema:"default=false" jsonschema_description:"true: a call whose line cannot be written is refused. Only on one machine."`
	Days      *int    `json:"days,omitempty" jsonschema:"minimum=1,maximum=36500,default=30" jsonschema_description:"How many days the files of the audit are kept on one machine. Decisions about tools are not in these files."`
	MaxBytes  *int64  `json:"max_bytes,omitempty" jsonschema:"minimum=16777216,default=10737418240" jsonschema_description:"How many bytes all files of the audit may have on one machine. At the limit, calls are refused if required is true; otherwise the oldest day is removed."`
}

// fileConfig is the member config.
type fileConfig struct {
	EditURL *string `json:"edit_url,omitempty" jsonschema:"pattern=^https://" jsonschema_description:"The https address at which people change this file, such as its page at the Git host. The console links to it where it cannot write the file."`
}

// fileStop is the member stop.
type fileStop struct {
	All     *bool    `json:"all,omitempty" jsonschema:"default=false" jsonschema_description:"true: everything is stopped."`
	Servers []string `json:"servers,omitempty" jsonschema_description:"Names of servers that are stopped."`
	Agents  []string `json:"agents,omitempty" jsonschema_description:"Ids of agents that are stopped, such as token:ci: they are refused."`
	Reason  *string  `json:"reason,omitempty" jsonschema_description:"The reason, in one line; agents see it."`
}

// A fileNotify is one target of notify.
type fileNotify struct {
	Type    *string  `json:"type" jsonschema:"enum=slack,enum=webhook,enum=sns" jsonschema_description:"slack: an incoming webhook of Slack. webhook: a signed POST, as in Standard Webhooks. sns: a topic of Amazon SNS, such as for e-mail."`
	URL     *string  `json:"url,omitempty" jsonschema_description:"For slack and webhook: the address; a reference ${secretsmanager:name}, ${ssm:/name} or ${env:NAME}, or https."`
	Secret  *string  `json:"secret,omitempty" jsonschema_description:"For webhook: the signing secret, whsec_ and base64, or a reference to it."`
	Topic   *string  `json:"topic,omitempty" jsonschema:"pattern=^arn:aws" jsonschema_description:"For sns: the topic's ARN. Only the functions on AWS send to it."`
	Events  []string `json:"events,omitempty" jsonschema:"minItems=1,enum=changed,enum=new,enum=request,enum=decided,enum=server_down,enum=config_refused,enum=connection_ended" jsonschema_description:"The events for this target; the default is all."`
	Servers []string `json:"servers,omitempty" jsonschema:"minItems=1" jsonschema_description:"The servers for this target: it gets only events about them. The default is all servers, and events about no server."`
}

// fileGateway is the member gateway.
type fileGateway struct {
	Mode     *string `json:"mode,omitempty" jsonschema:"enum=search,enum=direct,default=search" jsonschema_description:"search: agents see six tools and find the rest. direct: agents see the tools themselves, as server__tool."`
	Prefix   *bool   `json:"prefix,omitempty" jsonschema:"default=true" jsonschema_description:"false: direct mode shows the tools of the only server under their own names."`
	Notice   *string `json:"notice,omitempty" jsonschema:"enum=best,enum=zero,default=best" jsonschema_description:"When an answer mentions locked tools that were not requested. best: if no callable tool matched, or a locked tool matched better than all of them. zero: only if no callable tool matched."`
	Locked   *string `json:"locked,omitempty" jsonschema:"enum=error,enum=result,default=error" jsonschema_description:"How the call of a locked tool is answered. error: with isError. result: with the same text and without isError, for clients that count errors."`
	Requests *bool   `json:"requests,omitempty" jsonschema_description:"Whether agents may request access to locked tools, so that a person decides: in search mode with one more tool, request_access, and by a link or their client's dialog. Default: true where an approver can sign in at /admin, otherwise false."`
	Ranking  *string `json:"ranking,omitempty" jsonschema:"enum=fused,enum=lexical,default=fused" jsonschema_description:"fused: by words and meaning. lexical: by words alone."`
	Answers  *string `json:"answers,omitempty" jsonschema:"enum=json,enum=lines,default=json" jsonschema_description:"The form of the results of retrieve_tools: json, or lines: one line for each tool, which takes fewer tokens."`
	Apps     *string `json:"apps,omitempty" jsonschema:"enum=on,enum=off,default=on" jsonschema_description:"In search mode, on: a host that shows pages (MCP Apps) also gets up to 10 callable tools with a page, and the pages can call tools. off: neither. Direct mode lists these tools in any case."`

	Programs *filePrograms `json:"programs,omitempty" jsonschema_description:"Settings of all servers that are programs."`
}

// filePrograms is the member programs of gateway.
type filePrograms struct {
	MaxPerAgent *int `json:"max_per_agent,omitempty" jsonschema:"minimum=1,maximum=64,default=24" jsonschema_description:"The most processes that run for one agent, over all servers. If every caller is the same agent, as with PORTCULLIS_AUTH=none: for one client session. If an agent needs one more, its longest idle process ends."`

	Env []string `json:"env,omitempty" jsonschema:"pattern=^[A-Za-z_][A-Za-z0-9_]*$" jsonschema_description:"Names of variables of the gateway that every program gets, in addition to the variables for proxies, certificates and registries. The env of a server wins."`
}
