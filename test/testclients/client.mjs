// Runs one of the official TypeScript clients against a gateway and prints what it
// was told, as one JSON object.
//
//   node client.mjs '{"url": …, "mode": "sdk"|"legacy"|"auto", "headers": {…}, "steps": [{"method": …, "params": {…}}]}'
//
// "sdk" is @modelcontextprotocol/sdk, the client of the handshake protocols; the others
// are @modelcontextprotocol/client.
import process from "node:process";

const { url, mode, headers = {}, steps = [] } = JSON.parse(process.argv[2]);
const info = { name: "portcullis-clients", version: "1.0.0" };

async function connect() {
  if (mode === "sdk") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    const client = new Client(info);
    await client.connect(transport);
    return { client, version: transport.protocolVersion };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return { client, version: client.getNegotiatedProtocolVersion() };
}

async function take(client, step) {
  try {
    switch (step.method) {
      case "tools/list":
        return { result: await client.listTools(step.params) };
      case "tools/call":
        return { result: await client.callTool(step.params) };
      case "ping":
        return { result: await client.ping() };
      default:
        throw new Error(`no step ${step.method}`);
    }
  } catch (e) {
    return { error: { code: e.code ?? 0, message: e.message } };
  }
}

const { client, version } = await connect();
const answers = [];
for (const step of steps) {
  answers.push(await take(client, step));
}
console.log(JSON.stringify({
  version,
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  answers,
}));
await client.close();
