"""A server made with FastMCP that has more than plain tools: progress, questions, logs, resources,
prompts and a value for each session. It can also send much progress and long results.

    python server.py            on stdin and stdout
    python server.py PORT       at http://127.0.0.1:PORT/mcp
"""

import asyncio
import base64
import os
import sys

from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image
from mcp.types import ToolAnnotations

mcp = FastMCP("lanes")
READ = ToolAnnotations(readOnlyHint=True)
calls: dict[str, str] = {}  # the end of each call of count, by the call's label
values: dict[str, str] = {}  # the values that remember got, by session


@mcp.tool(annotations=READ)
async def count(steps: int, every: float, ctx: Context, label: str = "") -> str:
    """Count to a number, with a progress report at each step."""
    calls[label] = "runs"
    try:
        for i in range(steps):
            await ctx.report_progress(i + 1, steps, f"step {i + 1}")
            if every:
                await asyncio.sleep(every)
    except asyncio.CancelledError:
        calls[label] = "cancelled"
        raise
    calls[label] = "done"
    return f"counted to {steps}"


@mcp.tool(annotations=READ)
def fate(label: str) -> str:
    """Say how a call of count ended."""
    return calls.get(label, "unknown")


@mcp.tool(annotations=READ)
async def sign(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Who are you?", response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@mcp.tool(annotations=READ)
async def visit(ctx: Context) -> str:
    """Ask the user to open a page."""
    answer = await ctx.session.elicit_url(
        "Connect your account", "https://accounts.example.com/connect?id=7", "visit-7", related_request_id=ctx.request_id
    )
    return f"the user answered: {answer.action}"


@mcp.tool(annotations=READ)
async def tell(ctx: Context) -> str:
    """Write a line to the client's log."""
    await ctx.warning("the disk is nearly full")
    return "told"


@mcp.tool(annotations=READ)
def picture(size: int) -> Image:
    """Return an image of a number of bytes."""
    return Image(data=os.urandom(size), format="png")


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=False))
def die() -> str:
    """End the server in the middle of the call."""
    os._exit(3)


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=False))
def remember(value: str, ctx: Context) -> str:
    """Keep a value for this session."""
    values[ctx.session_id] = value
    return "kept"


@mcp.tool(annotations=READ)
def recall(ctx: Context) -> str:
    """Say which value this session has, and how many sessions have one."""
    return f"{values.get(ctx.session_id, 'nothing')}, {len(values)} sessions"


@mcp.resource("notes://today")
def today() -> str:
    """What is to be done today."""
    return "Water the plants."


@mcp.resource("notes://day/{day}")
def day(day: str) -> str:
    """What was done on a day."""
    return f"On {day}: nothing."


@mcp.resource("notes://large", mime_type="application/octet-stream")
def large() -> bytes:
    """50 MB."""
    return base64.b64encode(os.urandom(1024)) * (50 * 1024 * 1024 // 1368)


@mcp.resource("notes://secret")
def secret() -> str:
    """What no agent may read."""
    return "The key is under the mat."


@mcp.prompt
def summarize(topic: str) -> str:
    """Ask for a summary."""
    return f"Summarize {topic} in one sentence."


@mcp.prompt
def shout(topic: str) -> str:
    """Ask for capitals."""
    return f"Write {topic} in capitals."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
    else:
        mcp.run(show_banner=False, log_level="warning")
