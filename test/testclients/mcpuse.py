"""Runs the Python client of mcp-use against a gateway and prints its answers as one JSON object, as
client.mjs does. It is separate from client.py, because mcp-use needs an older MCP SDK.
"""

import asyncio
import json
import logging
import sys

from mcp.shared.exceptions import McpError
from mcp.types import ElicitResult, ServerNotification, ToolListChangedNotification
from mcp_use import MCPClient

logging.disable()  # mcp-use logs to standard output
job = json.loads(sys.argv[1])
asked: list[str] = []
opened: list[dict[str, str]] = []
logs: list[object] = []
opens: list[str] = job.get("opens") or []
changed = asyncio.Event()  # the list of tools has changed, and no step has waited for this change


async def answer(context, params):
    if params.mode == "url":
        action = opens.pop(0) if len(opens) > 1 else opens[0]
        opened.append({"action": action, "message": params.message, "url": params.url})
        return ElicitResult(action=action)
    asked.append(params.message)
    return ElicitResult(action="accept", content=job["reply"])


async def notice(message):
    if isinstance(message, ServerNotification) and isinstance(message.root, ToolListChangedNotification):
        changed.set()


async def log(params):
    logs.append(params.data)


async def take(session, step):
    params = step.get("params") or {}
    try:
        match step["method"]:
            case "tools/list":
                result = {"tools": plain(await session.list_tools())}
            case "tools/call":
                result = plain(await session.call_tool(params["name"], params.get("arguments") or {}))
            case "prompts/list":
                result = {"prompts": plain(await session.list_prompts())}
            case "prompts/get":
                result = plain(await session.get_prompt(params["name"], params.get("arguments")))
            case "resources/list":
                result = {"resources": plain(await session.list_resources())}
            case "resources/read":
                result = plain(await session.read_resource(params["uri"]))
            case "notifications/tools/list_changed":  # wait for it
                await changed.wait()
                changed.clear()
                result = {}
            case other:
                raise ValueError(f"no step {other}")
        return {"result": result}
    except McpError as e:
        told = {"code": e.error.code, "message": e.error.message, "name": type(e).__name__}
        if e.error.code == -32042:
            told["url"] = e.error.data["elicitations"][0]["url"]
        return {"error": told}


def plain(value):
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    if command := job.get("command"):
        entry = {"command": command[0], "args": command[1:]}
    else:
        entry = {"url": job["url"]}
        if bearer := (job.get("headers") or {}).get("Authorization"):
            # in "headers" the token would not keep mcp-use from signing in by OAuth
            entry["auth"] = bearer.removeprefix("Bearer ")
    client = MCPClient.from_dict(
        {"mcpServers": {"gateway": entry}},
        elicitation_callback=answer if job.get("reply") or opens else None,
        message_handler=notice,
        logging_callback=log,
    )
    session = await client.create_session("gateway")
    began = session.connector.client_session
    answers = [await take(session, step) for step in job.get("steps", [])]
    print(json.dumps({
        "server": {}, "capabilities": plain(began.get_server_capabilities()),
        "answers": answers, "asked": asked, "opened": opened, "logs": logs,
    }))
    await client.close_all_sessions()


asyncio.run(main())
