"""A connection that is cut in the middle of prompts: every update once, permissions asked again, one run of each prompt.
With `crash`, the other end dies, and the new address comes on standard input."""
import asyncio
import sys

from editor import Connection, Editor, ended, fails, permission, steps

COUNT = 300


async def again(connection, editor, url):
    """The next connection: cut here, or by the death of hostd."""
    if sys.argv[1] == "crash":
        print("crash", flush=True)
        url = (await asyncio.to_thread(sys.stdin.readline)).strip()
        await connection.agent.close()
    else:
        await connection.cut()
    return await Connection.open(editor, url=url), url


async def streamed(editor, connection, session, cuts):
    """Cut while it is told of many updates; what the client saw last decides what it is told next."""
    whole, url = "", None
    prompt = steps(*[["say", f"{n} "] for n in range(COUNT)], ["say", "end"])
    seen = []
    for cut in range(cuts + 1):
        if cut > 0:
            editor = Editor()
            connection, url = await again(connection, editor, url)
            after = max(seen, default=0)
            # As after a restart of the editor itself: the prompt is repeated, and is the same task.
            await ended(connection.agent.resume_session(cwd="/x", session_id=session, after=after))
        running = asyncio.ensure_future(
            connection.agent.prompt(session_id=session, prompt=prompt, messageId="streamed"))
        running.add_done_callback(lambda _: asyncio.ensure_future(editor.tell()))
        if cut < cuts:
            await editor.until(lambda: len(editor.text().split()) > COUNT // (cuts + 2) or running.done())
            kept = list(editor.updates)
            running.cancel()
        else:
            done = await ended(running)
            assert done.stop_reason == "end_turn", done
            kept = editor.updates
        for _, update, meta in kept:
            if update.session_update == "agent_message_chunk":
                whole += update.content.text
            seen.append(meta["seq"])
    assert whole == "".join(f"{n} " for n in range(COUNT)) + "end\n", whole
    assert seen == sorted(set(seen)), "an update came twice"
    return connection, url


async def asked(connection, session, url):
    """Cut while the agent waits for a permission: it is asked for again."""
    editor = Editor(choice=None)
    connection, url = await again(connection, editor, url)
    await ended(connection.agent.resume_session(cwd="/x", session_id=session))
    prompt = steps(["say", "before\n"], permission("make"), ["say", "after"])
    running = asyncio.ensure_future(
        connection.agent.prompt(session_id=session, prompt=prompt, messageId="asked"))
    await editor.until(lambda: editor.asked)
    assert editor.text() == "before\n", editor.text()
    seq = editor.seq()
    running.cancel()
    later = Editor(choice="yes")
    connection, url = await again(connection, later, url)
    await ended(connection.agent.resume_session(cwd="/x", session_id=session, after=seq))
    # Without its prompt, the editor is told of the end by an update.
    await later.until(lambda: later.of_kind("session_info_update"))
    assert len(later.asked) == 1, later.asked
    assert "before" not in later.text() and later.text().endswith("after\n"), later.text()
    end = later.of_kind("session_info_update")[0].field_meta["ended"]
    assert end == {"stopReason": "end_turn"}, end
    # The prompt, repeated after its end, has the same response; another text for it is refused.
    told = len(later.updates)
    done = await ended(connection.agent.prompt(session_id=session, prompt=prompt, messageId="asked"))
    assert done.stop_reason == "end_turn" and len(later.updates) == told, later.updates[told:]
    await fails(connection.agent.prompt(session_id=session, prompt=steps(["say", "x"]), messageId="asked"), -32602)
    return connection


async def main():
    editor = Editor()
    connection = await Connection.open(editor, query="?agent=fake&mode=ask")
    new = await ended(connection.agent.new_session(cwd="/home/ann/cut", messageId="new"))
    repeated = await ended(connection.agent.new_session(cwd="/home/ann/cut", messageId="new"))
    assert repeated.session_id == new.session_id, "a repeated session/new made another session"
    session = new.session_id
    cuts = 1 if sys.argv[1] == "crash" else 4
    connection, url = await streamed(editor, connection, session, cuts)
    connection = await asked(connection, session, url)
    await connection.agent.close()
    print(session)


asyncio.run(main())
