"""A server that requires an issuer's token, made with the Python SDK or FastMCP. Its tool says whose
token it is.

    python signed.py mcp|fastmcp PORT ISSUER
"""

import sys

import httpx
from mcp.types import ToolAnnotations

kit, port, issuer = sys.argv[1:]
url = f"http://127.0.0.1:{port}"
introspection = httpx.get(f"{issuer}/.well-known/openid-configuration").json()["introspection_endpoint"]


async def look_up(token: str) -> dict:
    """Return the issuer's data about a token."""
    async with httpx.AsyncClient() as client:
        return (await client.post(introspection, data={"token": token, "client_id": "servers"})).json()


def whoami() -> str:
    """Say whose token this is."""
    return f"you are {get_access_token().subject}"


if kit == "mcp":
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import AccessToken, TokenVerifier
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.mcpserver import MCPServer
else:
    from fastmcp import FastMCP
    from fastmcp.server.auth import AccessToken, RemoteAuthProvider, TokenVerifier
    from fastmcp.server.dependencies import get_access_token


class Verifier(TokenVerifier):
    """Asks the issuer about each token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        found = await look_up(token)
        if not found["active"] or found["aud"] != f"{url}/mcp":
            return None
        return AccessToken(
            token=token, client_id=found["client_id"], scopes=found["scope"].split(), expires_at=found["exp"],
            resource=found["aud"], subject=found["sub"],
        )


READ = ToolAnnotations(readOnlyHint=True)
if kit == "mcp":
    auth = AuthSettings(
        issuer_url=issuer, resource_server_url=f"{url}/mcp", required_scopes=["read"], validate_token_resource=True,
    )
    server = MCPServer("signed", auth=auth, token_verifier=Verifier(), log_level="WARNING")
    server.tool(annotations=READ)(whoami)
    server.run("streamable-http", host="127.0.0.1", port=int(port))
else:
    provider = RemoteAuthProvider(
        token_verifier=Verifier(base_url=url, required_scopes=["read"]), authorization_servers=[issuer], base_url=url,
    )
    server = FastMCP("signed", auth=provider)
    server.tool(annotations=READ)(whoami)
    server.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="warning")
