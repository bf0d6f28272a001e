"""Connects the published client: by HTTP (URL and token), or by a command that speaks on standard input and output."""

import contextlib
import os

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

HTTP_TIMEOUT_S = 120


@contextlib.asynccontextmanager
async def by_http(url, token, **options):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=HTTP_TIMEOUT_S) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client:
            yield client


@contextlib.asynccontextmanager
async def by_command(command, arguments, **options):
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(server, **options) as client:
        yield client


def connect(arguments, **options):
    """`http URL TOKEN` or `stdio COMMAND ARGUMENTS…`."""
    kind, first, *rest = arguments
    if kind == "http":
        return by_http(first, *rest, **options)
    return by_command(first, rest, **options)


def text(result):
    return "".join(part.text for part in result.content if part.type == "text")


class Steps:
    """Calls tools, and keeps the progress that they report."""

    def __init__(self, client):
        self.client = client
        self.progress = []

    async def call(self, tool, /, *, fails=False, **arguments):
        """The structure of a result that must be a success, or with `fails` the text of a failure."""
        self.progress.clear()
        result = await self.client.call_tool(tool, arguments, progress_callback=self.on_progress)
        assert bool(result.is_error) == bool(fails), f"{tool} {arguments}: {result}"
        return text(result) if fails else result.structured_content

    async def on_progress(self, progress, total, message):
        assert not self.progress or progress > self.progress[-1][0], f"progress goes back: {progress}"
        self.progress.append((progress, message))

    def said(self):
        return "".join(message for _, message in self.progress)
