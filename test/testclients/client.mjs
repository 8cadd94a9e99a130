// Runs one of the official TypeScript clients against a gateway and prints the gateway's
// answers as one JSON object.
//
//   node client.mjs '{"url": …, "mode": "sdk"|"legacy"|"auto", "headers": {…}, "steps": [{"method": …, "params": {…}}]}'
//
// Mode "sdk" is @modelcontextprotocol/sdk, the client of the handshake protocols. Mode "ai-sdk" is
// Vercel's AI SDK; its results are the texts that its model reads. The other modes are
// @modelcontextprotocol/client. With "command" instead of "url", the server is a child process. A
// step with "progress" records the progress of its call. With "reply", the client accepts each
// question and answers it with that content. With "opens", the client can open pages for its user:
// "opens" lists the user's answers (accept, decline or cancel), and the last one repeats.
import process from "node:process";

const { url, command, mode, headers = {}, reply, opens, steps = [] } = JSON.parse(process.argv[2]);
const info = { name: "portcullis-clients", version: "1.0.0" };
const elicitation = opens ? { form: {}, url: {} } : {};
const options = reply || opens ? { capabilities: { elicitation } } : {};
const asked = [];
const opened = [];
const logs = [];
const answer = ({ params }) => {
  if (params.mode === "url") {
    const action = opens.length > 1 ? opens.shift() : opens[0];
    opened.push({ action, message: params.message, url: params.url });
    return { action };
  }
  asked.push(params.message);
  return { action: "accept", content: reply };
};
const log = (notification) => void logs.push(notification.params.data);
let changes = 0; // of the list of tools, that no step has waited for
let wake = () => {};
const listChanged = { tools: { autoRefresh: false, onChanged: () => void (changes++, wake()) } };
async function listHasChanged() {
  if (changes === 0) {
    await new Promise((resolve) => (wake = resolve));
  }
  changes = 0;
  return {};
}

async function connect() {
  const child = { command: command?.[0], args: command?.slice(1), stderr: "inherit" };
  if (mode === "ai-sdk") {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const client = await createMCPClient({ transport: { type: "http", url, headers } });
    const tools = await client.tools();
    const call = async ({ name, arguments: input }) => {
      const output = await tools[name].execute(input, { toolCallId: "1", messages: [] });
      return { ...output, content: tools[name].toModelOutput({ toolCallId: "1", input, output }).value };
    };
    return { client, version: client.initializeResult.protocolVersion, call };
  }
  if (mode === "sdk") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const types = await import("@modelcontextprotocol/sdk/types.js");
    const transport = command ? new StdioClientTransport(child) : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    const client = new Client(info, { ...options, listChanged });
    if (reply || opens) {
      client.setRequestHandler(types.ElicitRequestSchema, answer);
    }
    client.setNotificationHandler(types.LoggingMessageNotificationSchema, log);
    await client.connect(transport);
    return { client, version: transport.protocolVersion, call: (params, o) => client.callTool(params, undefined, o) };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const client = new Client(info, { ...options, listChanged, versionNegotiation: { mode } });
  if (reply || opens) {
    client.setRequestHandler("elicitation/create", answer);
  }
  client.setNotificationHandler("notifications/message", log);
  await client.connect(command ? new StdioClientTransport(child) : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return { client, version: client.getNegotiatedProtocolVersion(), call: (params, o) => client.callTool(params, o) };
}

async function take({ client, call }, { method, params, progress }) {
  const seen = [];
  const answered = (fields) => (progress ? { ...fields, progress: seen } : fields);
  try {
    switch (method) {
      case "tools/list":
        return { result: await client.listTools(params) };
      case "tools/call":
        return answered({ result: await call(params, progress ? { onprogress: (p) => seen.push(p) } : undefined) });
      case "prompts/list":
        return { result: await client.listPrompts(params) };
      case "prompts/get":
        return { result: await client.getPrompt(params) };
      case "resources/list":
        return { result: await client.listResources(params) };
      case "resources/templates/list":
        return { result: await client.listResourceTemplates(params) };
      case "resources/read":
        return { result: await client.readResource(params) };
      case "completion/complete":
        return { result: await client.complete(params) };
      case "notifications/tools/list_changed": // wait for it
        return { result: await listHasChanged() };
      case "ping":
        return { result: await client.ping() };
      default:
        throw new Error(`no step ${method}`);
    }
  } catch (e) {
    const { code = 0, message, elicitations } = e;
    return answered({ error: { code, message, name: e.constructor.name, url: elicitations?.[0]?.url } });
  }
}

const connected = await connect();
const { client, version } = connected;
const answers = [];
for (const step of steps) {
  answers.push(await take(connected, step));
}
console.log(JSON.stringify({
  version,
  server: client.getServerVersion?.() ?? client.serverInfo,
  capabilities: client.getServerCapabilities?.(),
  instructions: client.getInstructions?.() ?? client.instructions,
  answers,
  asked,
  opened,
  logs,
}));
await client.close();
