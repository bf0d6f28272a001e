"""What a token that only reads, a token of another tenant, and no token of ours get.

usage: access.py URL READER STRANGER SANDBOX
"""

import asyncio
import sys

from connect import Steps, by_http
from mcp.shared.exceptions import MCPError


async def main():
    url, reader, stranger, sandbox = sys.argv[1:]
    async with by_http(url, reader) as client:
        shown = [tool.name for tool in (await client.list_tools()).tools]
        assert "read_file" in shown and "logs" in shown, shown
        assert not {"exec", "write_file", "destroy_sandbox", "create_sandbox"} & set(shown), shown
        steps = Steps(client)
        assert [item["id"] for item in (await steps.call("list_sandboxes"))["items"]] == [sandbox]
        await steps.call("write_file", sandbox=sandbox, path="a", content="", fails=True)
        for name, arguments in [("exec", {"command": "true"}), ("destroy_sandbox", {})]:
            told = await steps.call(name, sandbox=sandbox, fails=True, **arguments)
            assert "forbidden" in told and "scope run" in told, told
    async with by_http(url, stranger) as client:
        steps = Steps(client)
        assert (await steps.call("list_sandboxes"))["items"] == []
        for name, arguments in [
            ("get_sandbox", {}),
            ("exec", {"command": "true"}),
            ("read_file", {"path": "secret"}),
            ("destroy_sandbox", {}),
        ]:
            told = await steps.call(name, sandbox=sandbox, fails=True, **arguments)
            assert told.startswith("not_found"), told
        assert (await client.list_resources()).resources == []
    try:
        async with by_http(url, "wrong") as client:
            raise AssertionError(client.protocol_version)
    except* MCPError as errors:
        assert "unknown, revoked or expired" in repr(errors), errors


asyncio.run(main())
