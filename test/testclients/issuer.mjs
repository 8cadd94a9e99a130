// Runs oidc-provider on a loopback port until it is killed. Its clients register themselves, and get
// only scopes that they registered. The person who signs in is kim, or the person in the header
// X-Person, and agrees to everything.
//
//   node issuer.mjs PORT SCOPE…
//
// LIFE is the number of seconds for which a token is valid. If LIFE is set, tokens are opaque:
// servers look them up as the client "servers", and a revoked token is invalid immediately. Refresh
// tokens work only once. A client that registers no scopes gets only openid. MARK is in each token,
// code and client secret.
import { randomUUID } from "node:crypto";
import process from "node:process";
import { Provider } from "oidc-provider";

const [port, ...scopes] = process.argv.slice(2);
const life = Number(process.env.LIFE ?? 0);
const format = life ? "opaque" : "jwt";
const mark = process.env.MARK;

const provider = new Provider(`http://127.0.0.1:${port}`, {
  scopes: life ? ["openid", ...scopes] : scopes,
  ...(life && {
    ttl: { AccessToken: life, Grant: 3600, RefreshToken: 3600, Session: 3600, Interaction: 3600, AuthorizationCode: 60 },
    rotateRefreshToken: true,
    clients: [{ client_id: "servers", token_endpoint_auth_method: "none", redirect_uris: [], response_types: [], grant_types: [] }],
  }),
  clientDefaults: { ...(life && { scope: "openid" }), id_token_signed_response_alg: "RS256" },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true, secretFactory: () => mark + randomUUID() },
    introspection: { enabled: life > 0, allowedPolicy: () => true },
    revocation: { enabled: life > 0 },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, audience) => ({ scope: scopes.join(" "), audience, accessTokenFormat: format }),
    },
  },
});

for (const kind of ["AccessToken", "RefreshToken", "AuthorizationCode"]) {
  const { prototype } = provider[kind], original = prototype.generateTokenId;
  prototype.generateTokenId = function () { return mark + original.call(this); };
}

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === "login") {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: ctx.get("X-Person") || "kim" } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "");
  grant.addResourceScope(params.resource, params.scope ?? "");
  return provider.interactionFinished(ctx.req, ctx.res, { consent: { grantId: await grant.save() } });
});

provider.listen(port, "127.0.0.1");
