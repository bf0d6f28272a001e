"""A command whose stream breaks in the middle: every byte of its output comes once, and its result comes.

Prints `half` when the first half was seen. The command goes on when the file `go` exists.
"""

import asyncio
import sys

from connect import connect

LINES = 2_000
COMMAND = f"seq 1 {LINES}; while [ ! -e go ]; do sleep 0.05; done; seq {LINES + 1} {2 * LINES}; rm go"


async def main():
    sandbox = sys.argv[1]
    seen = []

    async def on_progress(_progress, _total, message):
        seen.append(message)
        if sum(map(len, seen)) == len(expected(LINES)):
            print("half", flush=True)

    async with connect(sys.argv[2:]) as client:
        arguments = {"sandbox": sandbox, "command": COMMAND}
        result = await client.call_tool("exec", arguments, progress_callback=on_progress)
        assert not result.is_error, result
        assert result.structured_content["exit_code"] == 0, result
        assert "".join(seen) == expected(2 * LINES), "progress is not the output"
        assert (await client.call_tool("get_sandbox", {"sandbox": sandbox})).structured_content["status"] == "running"


def expected(lines):
    return "".join(f"{n}\n" for n in range(1, lines + 1))


asyncio.run(main())
