// Runs one of the official TypeScript clients against a gateway that requires a sign-in, and
// prints the gateway's answers as one JSON object.
//
//   node oauth.mjs '{"url": …, "mode": "sdk"|"legacy"|"auto", "steps": [{"method": …, "params": {…}}]}'
//
// The client gets only the gateway's address. Its person agrees to everything.
import process from "node:process";

const { url, mode, steps = [] } = JSON.parse(process.argv[2]);
const info = { name: "portcullis-oauth", version: "1.0.0" };

// A Visitor keeps a client's tokens, and acts as the browser of the client's person.
class Visitor {
  redirectUrl = "http://127.0.0.1:1/callback";
  clientMetadata = { client_name: "test", redirect_uris: [this.redirectUrl], grant_types: ["authorization_code", "refresh_token"], token_endpoint_auth_method: "none" };
  asked = [];
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.held; }
  saveTokens(tokens) { this.held = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  async redirectToAuthorization(address) {
    this.asked.push(address.searchParams.get("scope") ?? "");
    const cookies = new Map();
    while (!address.href.startsWith(this.redirectUrl)) {
      const answer = await fetch(address, { redirect: "manual", headers: { cookie: [...cookies.values()].join("; ") } });
      for (const cookie of answer.headers.getSetCookie()) cookies.set(cookie.split("=")[0], cookie.split(";")[0]);
      if (!answer.headers.has("location")) throw new Error(`the issuer answers ${answer.status}: ${await answer.text()}`);
      address = new URL(answer.headers.get("location"), address);
    }
    if (address.searchParams.has("error")) throw new Error(`the issuer answers ${address.searchParams.get("error")}`);
    this.back = address.searchParams;
  }
}

const visitor = new Visitor();

async function open() {
  if (mode === "sdk") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { client: new Client(info), transport: new StreamableHTTPClientTransport(new URL(url), { authProvider: visitor }) };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  return {
    client: new Client(info, { versionNegotiation: { mode } }),
    transport: new StreamableHTTPClientTransport(new URL(url), { authProvider: visitor }),
  };
}

// finish trades the code that the person brought back for a token. It returns false if there is no code.
async function finish(transport) {
  const back = visitor.back;
  visitor.back = undefined;
  if (!back) return false;
  await transport.finishAuth(back.get("code"), back.get("iss") ?? undefined);
  return true;
}

async function connect() {
  const first = await open();
  try {
    await first.client.connect(first.transport);
    return first;
  } catch (e) {
    if (!(await finish(first.transport))) throw e;
  }
  const again = await open();
  await again.client.connect(again.transport);
  return again;
}

async function take({ client, transport }, step, retried = false) {
  try {
    return { result: step.method === "tools/list" ? await client.listTools(step.params) : await client.callTool(step.params) };
  } catch (e) {
    if (!retried && (await finish(transport))) return take({ client, transport }, step, true);
    return { error: { code: e.code ?? 0, message: e.message } };
  }
}

const session = await connect();
const answers = [];
for (const step of steps) {
  answers.push(await take(session, step));
}
console.log(JSON.stringify({ instructions: session.client.getInstructions(), answers, asked: visitor.asked }));
await session.client.close();
