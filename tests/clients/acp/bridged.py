"""An editor that starts `slipway acp` notices nothing of a hostd that dies and comes back. For every line `crash` that
it prints, it waits for a line on standard input."""
import asyncio
import os
import sys

import acp
from editor import Editor, ended, permission, steps

COUNT = 200


async def crash():
    print("crash", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def main():
    editor = Editor(choice=None)
    async with acp.spawn_agent_process(editor, *sys.argv[1:], env=dict(os.environ)) as (agent, _):
        await ended(agent.initialize(protocol_version=1))
        session = (await ended(agent.new_session(cwd="/home/ann/bridged", agent="fake", mode="ask"))).session_id
        said = [["say", f"{n} "] for n in range(COUNT)]
        running = asyncio.ensure_future(agent.prompt(session_id=session, prompt=steps(
            *said, ["say", "half\n"], permission("make"), *said, ["say", "end"])))
        await editor.until(lambda: len(editor.text().split()) > COUNT // 4)
        await crash()
        await editor.until(lambda: editor.asked)
        # The answer is given while hostd is away, or after that: it arrives, once.
        crashed = asyncio.ensure_future(crash())
        await editor.choose("yes")
        await crashed
        done = await ended(running)
        assert done.stop_reason == "end_turn", done
        numbers = "".join(f"{n} " for n in range(COUNT))
        first, _, rest = editor.text().partition("half\n")
        assert first == numbers, first
        assert '"optionId": "yes"' in rest and rest.endswith(numbers + "end\n"), rest
        assert rest.count("optionId") == 1 and len(editor.asked) == 1, (rest, editor.asked)
        # Cancelled while hostd is away.
        running = asyncio.ensure_future(agent.prompt(session_id=session, prompt=steps(["say", "begun\n"], ["hang"])))
        await editor.until(lambda: "begun" in editor.text())
        crashed = asyncio.ensure_future(crash())
        await agent.cancel(session_id=session)
        await crashed
        assert (await ended(running)).stop_reason == "cancelled"
    print(session)


asyncio.run(main())
