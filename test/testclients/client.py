"""Runs one of the Python clients against a gateway and prints what it was told, as one JSON object:
the contract of client.mjs. The modes are "mcp", the official client, and
"fastmcp".
"""

import asyncio
import json
import sys

from fastmcp import Client as FastMCPClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult as RawElicitResult

job = json.loads(sys.argv[1])
asked: list[str] = []
logs: list[object] = []


async def raw_answer(context, params):
    asked.append(params.message)
    return RawElicitResult(action="accept", content=job["reply"])


async def answer(message, response_type, params, context):
    asked.append(message)
    return ElicitResult(action="accept", content=job["reply"])


async def log(message):
    logs.append(message.data)


def connect():
    command = job.get("command")
    if job["mode"] == "mcp":
        target = StdioServerParameters(command=command[0], args=command[1:]) if command else job["url"]
        return Client(target, elicitation_callback=raw_answer if job.get("reply") else None, logging_callback=log)
    target = StdioTransport(command[0], command[1:]) if command else job["url"]
    return FastMCPClient(target, elicitation_handler=answer if job.get("reply") else None, log_handler=log)


def raw(client, name):
    """The method that returns the result as it came."""
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
            case other:
                raise ValueError(f"no step {other}")
        told = {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}
    except MCPError as e:
        told = {"error": {"code": e.error.code, "message": e.error.message}}
    return told | ({"progress": seen} if step.get("progress") else {})


async def main():
    async with connect() as client:
        answers = [await take(client, step) for step in job.get("steps", [])]
        server = client.server_info
        print(json.dumps({
            "version": client.protocol_version,
            "server": {"name": server.name, "version": server.version},
            "capabilities": client.server_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "instructions": client.instructions,
            "answers": answers, "asked": asked, "logs": logs,
        }))


asyncio.run(main())
