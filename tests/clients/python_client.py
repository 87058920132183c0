"""A Python MCP client on a wire of lines: `python_client.py mcp2|mcp1|fastmcp URL MODE`, key in CLIENT_KEY or none.

Reads one JSON object a line (`{"list": true}` or `{"call": NAME, "arguments": {...}}`) and answers each with one:
`{"tools": [...]}`, `{"failed": bool, "structured": ..., "text": ...}` or `{"raised": "what the client threw"}`.
`{"cancel": true}` has no answer of its own: the call under way is given up and answers `{"cancelled": true}`.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager


@asynccontextmanager
async def mcp2(url, mode, headers):
    import mcp
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with create_mcp_http_client(headers=headers) as http:
        async with mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client:

            async def call(name, arguments):
                result = await client.call_tool(name, arguments, progress_callback=progress)
                return result.is_error, result.structured_content, result.content

            yield client.list_tools, call


@asynccontextmanager
async def mcp1(url, _mode, headers):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(url, headers=headers) as (read, write, _):
        async with ClientSession(read, write) as client:
            await client.initialize()

            async def call(name, arguments):
                result = await client.call_tool(name, arguments, progress_callback=progress)
                return result.isError, result.structuredContent, result.content

            yield client.list_tools, call


@asynccontextmanager
async def fastmcp(url, mode, headers):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=headers), mode=mode) as client:

        async def call(name, arguments):
            result = await client.call_tool(name, arguments, progress_handler=progress, raise_on_error=False)
            return result.is_error, result.structured_content, result.content

        yield client.list_tools, call


async def progress(*_):
    """Asked for in every call: a call whose client wants to see progress takes another way through the door."""


async def main(kind, url, mode):
    key = os.environ.get("CLIENT_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with {"mcp2": mcp2, "mcp1": mcp1, "fastmcp": fastmcp}[kind](url, mode, headers) as (list_tools, call):
        task = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            if "cancel" in asked:
                task.cancel()
            else:
                task = asyncio.create_task(tell(asked, list_tools, call))


async def tell(asked, list_tools, call):
    print(json.dumps(await answer(asked, list_tools, call)), flush=True)


async def answer(asked, list_tools, call):
    try:
        if "list" in asked:
            listed = await list_tools()
            return {"tools": [tool.name for tool in getattr(listed, "tools", listed)]}
        failed, structured, content = await call(asked["call"], asked["arguments"])
        return {"failed": bool(failed), "structured": structured, "text": content[0].text}
    except asyncio.CancelledError:
        return {"cancelled": True}
    except Exception as raised:  # whatever a client throws is its verdict
        return {"raised": f"{type(raised).__name__}: {raised}"}


asyncio.run(main(*sys.argv[1:]))
