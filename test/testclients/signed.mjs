// A server made with the TypeScript SDK that requires an issuer's token. Its tool says whose token it is.
//
//   node signed.mjs PORT ISSUER
import process from "node:process";
import express from "express";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";

const [port, issuer] = process.argv.slice(2);
const resourceServerUrl = new URL(`http://127.0.0.1:${port}/mcp`);
const oauthMetadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();

const verifier = {
  async verifyAccessToken(token) {
    const body = new URLSearchParams({ token, client_id: "servers" });
    const found = await (await fetch(oauthMetadata.introspection_endpoint, { method: "POST", body })).json();
    if (!found.active) throw new InvalidTokenError("unknown or expired");
    return {
      token, clientId: found.client_id, scopes: found.scope.split(" "), expiresAt: found.exp,
      resource: new URL(found.aud), extra: { sub: found.sub },
    };
  },
};

const app = express();
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl, scopesSupported: ["read"] }));
app.use(requireBearerAuth({
  verifier, requiredScopes: ["read"], expectedResource: resourceServerUrl,
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resourceServerUrl),
}));
app.use(express.json());
app.all("/mcp", async (req, res) => {
  const server = new McpServer({ name: "signed", version: "1" });
  server.registerTool("whoami", { description: "Say whose token this is.", annotations: { readOnlyHint: true } },
    ({ authInfo }) => ({ content: [{ type: "text", text: `you are ${authInfo.extra.sub}` }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(req, res, req.body);
});
app.listen(Number(port), "127.0.0.1");
