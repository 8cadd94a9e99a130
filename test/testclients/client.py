"""Runs one of the Python clients against a gateway and prints the gateway's answers as one JSON
object, as client.mjs does. The modes are "mcp" (the official client) and "fastmcp". With "handshake",
the client speaks only the older protocols. The mode "pydantic-ai" is an agent of Pydantic AI that
calls tools, and prints the texts that its model reads.
"""

import asyncio
import json
import sys

from fastmcp import Client as FastMCPClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import Client, MCPError, StdioServerParameters, UrlElicitationRequiredError
from mcp.client.subscriptions import listen
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import ElicitResult as RawElicitResult
from mcp.types import ToolListChangedNotification

job = json.loads(sys.argv[1])
asked: list[str] = []
opened: list[dict[str, str]] = []
logs: list[object] = []
opens: list[str] = job.get("opens") or []
changed = asyncio.Event()  # the list of tools has changed, and no step has waited for this change


def visit(params):
    """Return the user's answer to a page that the client opens."""
    action = opens.pop(0) if len(opens) > 1 else opens[0]
    opened.append({"action": action, "message": params.message, "url": params.url})
    return action


async def raw_answer(context, params):
    if params.mode == "url":
        return RawElicitResult(action=visit(params))
    asked.append(params.message)
    return RawElicitResult(action="accept", content=job["reply"])


async def answer(message, response_type, params, context):
    if params.mode == "url":
        return ElicitResult(action=visit(params))
    asked.append(message)
    return ElicitResult(action="accept", content=job["reply"])


async def log(message):
    logs.append(message.data)


async def notice(message):
    if isinstance(message, ToolListChangedNotification):
        changed.set()


async def watch(client):
    """Set changed at each change. Clients of the stateless protocol subscribe to changes."""
    async with listen(client.session, tools_list_changed=True) as changes:
        async for _ in changes:
            changed.set()


def connect():
    command, headers = job.get("command"), job.get("headers") or {}
    mode, asks = "legacy" if job.get("handshake") else "auto", job.get("reply") or opens
    if job["mode"] == "mcp":
        if command:
            target = StdioServerParameters(command=command[0], args=command[1:])
        else:
            target = streamable_http_client(job["url"], http_client=create_mcp_http_client(headers=headers))
        return Client(target, mode=mode, elicitation_callback=raw_answer if asks else None, logging_callback=log, message_handler=notice)
    target = StdioTransport(command[0], command[1:]) if command else StreamableHttpTransport(job["url"], headers=headers)
    return FastMCPClient(target, mode=mode, elicitation_handler=answer if asks else None, log_handler=log, message_handler=notice)


def raw(client, name):
    """Return the method that returns results unchanged."""
    return getattr(client, name + "_mcp", None) or getattr(client, name)


async def take(client, step):
    params, seen = step.get("params") or {}, []

    async def progress(value, total, message):
        seen.append({"progress": value, "total": total, "message": message})

    try:
        match step["method"]:
            case "tools/list":
                result = await raw(client, "list_tools")()
            case "tools/call":
                watch = {"progress_callback" if job["mode"] == "mcp" else "progress_handler": progress} if step.get("progress") else {}
                result = await raw(client, "call_tool")(params["name"], params.get("arguments") or {}, **watch)
            case "prompts/list":
                result = await raw(client, "list_prompts")()
            case "prompts/get":
                result = await raw(client, "get_prompt")(params["name"], params.get("arguments"))
            case "resources/list":
                result = await raw(client, "list_resources")()
            case "resources/templates/list":
                result = await raw(client, "list_resource_templates")()
            case "resources/read":
                result = await raw(client, "read_resource")(params["uri"])
            case "notifications/tools/list_changed":  # wait for it
                await changed.wait()
                changed.clear()
                return {"result": {}}
            case other:
                raise ValueError(f"no step {other}")
        told = {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}
    except MCPError as e:
        told = {"error": {"code": e.error.code, "message": e.error.message, "name": type(e).__name__}}
        if e.error.code == -32042:
            told["error"]["url"] = UrlElicitationRequiredError.from_error(e.error).elicitations[0].url
    return told | ({"progress": seen} if step.get("progress") else {})


async def run_agent():
    """Run an agent whose model asks for the calls of the steps, one after another."""
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    steps, texts = iter(job["steps"]), []

    def model(history, info):
        texts.extend(part.model_response_str() for part in history[-1].parts if part.part_kind == "tool-return")
        params = (step := next(steps, None)) and step["params"]
        return ModelResponse(parts=[ToolCallPart(params["name"], params["arguments"]) if step else TextPart("done")])

    await Agent(FunctionModel(model), toolsets=[MCPToolset(job["url"], headers=job.get("headers"))]).run("work")
    print(json.dumps({"answers": [{"result": {"content": [{"type": "text", "text": text}]}} for text in texts]}))


async def main():
    async with connect() as client:
        watching = asyncio.create_task(watch(client)) if client.protocol_version == "2026-07-28" else None
        answers = [await take(client, step) for step in job.get("steps", [])]
        if watching:
            watching.cancel()
        server = client.server_info
        print(json.dumps({
            "version": client.protocol_version,
            "server": {"name": server.name, "version": server.version},
            "capabilities": client.server_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "instructions": client.instructions,
            "answers": answers, "asked": asked, "opened": opened, "logs": logs,
        }))


asyncio.run(run_agent() if job["mode"] == "pydantic-ai" else main())
