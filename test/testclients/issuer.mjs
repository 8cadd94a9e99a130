// Runs oidc-provider on a loopback port until it is killed. Its clients register themselves, and get
// only scopes that they registered. Whoever signs in is kim, and agrees to everything.
//
//   node issuer.mjs PORT SCOPE…
import process from "node:process";
import { Provider } from "oidc-provider";

const [port, ...scopes] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  scopes,
  clientDefaults: { id_token_signed_response_alg: "RS256" },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, audience) => ({ scope: scopes.join(" "), audience, accessTokenFormat: "jwt" }),
    },
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === "login") {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: "kim" } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "");
  grant.addResourceScope(params.resource, params.scope ?? "");
  return provider.interactionFinished(ctx.req, ctx.res, { consent: { grantId: await grant.save() } });
});

provider.listen(port, "127.0.0.1");
