"""Prompts as an editor sends them: text, tool calls, permissions, cancellation; sessions that are loaded, continued,
listed, changed and ended. `turns.py socket` by WebSocket, `turns.py http` by HTTP, `turns.py stdio COMMAND…`."""
import asyncio
import contextlib
import os
import sys

import acp
from acp.http import create_http_stream
from editor import Connection, Editor, ended, fails, permission, steps, tool


@contextlib.asynccontextmanager
async def connected(editor):
    how, *command = sys.argv[1:]
    if how == "socket":
        connection = await Connection.open(editor)
        yield connection.agent
        await connection.agent.close()
    elif how == "http":
        headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
        agent = acp.connect_to_agent(editor, create_http_stream(os.environ["URL"] + "/acp", headers=headers))
        await ended(agent.initialize(protocol_version=1))
        yield agent
        await agent.close()
    else:
        async with acp.spawn_agent_process(editor, *command, env=dict(os.environ)) as (agent, _):
            await ended(agent.initialize(protocol_version=1))
            yield agent


async def one_session(editor, agent):
    new = await ended(agent.new_session(cwd="/home/ann/My Web", agent="fake", mode="ask"))
    assert new.field_meta["name"].startswith("my-web-"), new
    assert [mode.id for mode in new.modes.available_modes] == ["auto", "ask"], new
    options = {option.id: option.current_value for option in new.config_options}
    assert options == {"mode": "ask", "agent": "fake", "model": "default"}, new
    session = new.session_id

    done = await ended(agent.prompt(session_id=session, prompt=steps(
        ["think", "hm"], ["say", "one "], ["say", "two"],
        tool("pending", title="Write a", kind="edit", locations=[{"path": "/a"}]),
        tool("completed", content=[{"type": "diff", "path": "/a", "newText": "new"}]),
        ["update", {"sessionUpdate": "plan", "entries": [{"content": "p", "status": "pending", "priority": "low"}]}],
        permission("make"))))
    assert done.stop_reason == "end_turn" and done.field_meta["task"], done
    assert editor.text("agent_thought_chunk") == "hm\n", editor.updates
    assert editor.text().startswith("one two\n"), editor.text()
    assert '"optionId": "yes"' in editor.text(), editor.text()
    [begun] = [update for update in editor.of_kind("tool_call") if update.title == "Write a"]
    [changed] = [update for update in editor.of_kind("tool_call_update") if update.tool_call_id == begun.tool_call_id]
    assert (begun.kind, begun.locations[0].path, changed.status) == ("edit", "/a", "completed"), editor.updates
    assert changed.content[0].new_text == "new", changed
    assert editor.of_kind("plan")[0].entries[0].content == "p", editor.updates
    [(asked_in, call, options)] = editor.asked
    assert (asked_in, call.title, options) == (session, "make", ["yes", "always", "no"]), editor.asked
    assert call.raw_input == {"command": "make"}, call
    seqs = [meta["seq"] for _, _, meta in editor.updates]
    assert seqs == sorted(set(seqs)), seqs
    return session


async def follow_up(editor, agent, session):
    """Denied by the editor, and by an editor that closes its question."""
    for choice in ["no", "closed"]:
        editor.updates.clear()
        editor.choice = choice
        done = await ended(agent.prompt(session_id=session, prompt=steps(permission("rm -rf /"), ["say", "so be it"])))
        assert done.stop_reason == "end_turn", done
        assert '"optionId": "no"' in editor.text() and editor.text().endswith("so be it\n"), editor.text()


async def cancelled(editor, agent, session):
    editor.updates.clear()
    prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=steps(["say", "begun\n"], ["hang"])))
    await editor.until(lambda: "begun" in editor.text())
    await agent.cancel(session_id=session)
    assert (await ended(prompt)).stop_reason == "cancelled"
    # At once after the prompt.
    prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=steps(["hang"])))
    await asyncio.sleep(0)
    await agent.cancel(session_id=session)
    assert (await ended(prompt)).stop_reason == "cancelled"


async def failed(agent, session):
    error = await fails(agent.prompt(session_id=session, prompt=steps(["fail", "no luck"])), -32603)
    assert "no luck" in str(error) and error.data["reason"] == "agent_failed", error.data
    await fails(agent.prompt(session_id=session, prompt=[acp.image_block("", "image/png")]), -32602)


async def settings(agent, session):
    await ended(agent.set_session_mode(session_id=session, mode_id="auto"))
    await fails(agent.set_session_mode(session_id=session, mode_id="yolo"), -32602)
    changed = await ended(agent.set_config_option(config_id="model", session_id=session, value="m1"))
    options = {option.id: option.current_value for option in changed.config_options}
    assert options == {"mode": "auto", "agent": "fake", "model": "m1"}, options
    await fails(agent.set_config_option(config_id="agent", session_id=session, value="none"), -32602)
    changed = await ended(agent.set_config_option(config_id="model", session_id=session, value="default"))


async def loaded(session, told):
    """Another connection is told of the same history, with the prompts."""
    editor = Editor()
    async with connected(editor) as agent:
        answer = await ended(agent.load_session(cwd="/home/ann/My Web", session_id=session))
        assert {option.id: option.current_value for option in answer.config_options}["mode"] == "auto", answer
        assert editor.text().startswith(told), editor.text()
        assert len(editor.of_kind("user_message_chunk")) == 6, editor.of_kind("user_message_chunk")
        assert not editor.asked, editor.asked
        before = len(editor.updates)
        # Continues, and is told of what is new only.
        done = await ended(agent.prompt(session_id=session, prompt=steps(["say", "again"])))
        assert done.stop_reason == "end_turn", done
        new = [update.content.text for _, update, _ in editor.updates[before:]]
        assert new == ["again\n"], new


async def two_sessions(agent, session):
    """Two sessions of one sandbox do not continue each other."""
    sandbox = session.split(".")[0]
    other = await ended(agent.new_session(cwd="/home/ann/other", sandbox=sandbox, agent="fake"))
    assert other.session_id != session and other.field_meta["sandbox"] == sandbox, other
    await ended(agent.prompt(session_id=other.session_id, prompt=steps(["say", "other"])))
    await ended(agent.prompt(session_id=session, prompt=steps(["say", "first"])))
    listed = await ended(agent.list_sessions(cwd="/home/ann/other"))
    assert [info.session_id for info in listed.sessions] == [other.session_id], listed
    listed = await ended(agent.list_sessions())
    assert {session, other.session_id} <= {info.session_id for info in listed.sessions}, listed
    await ended(agent.close_session(session_id=other.session_id))
    await ended(agent._conn.send_request("session/delete", {"sessionId": other.session_id}))
    await fails(agent.prompt(session_id=other.session_id, prompt=steps(["say", "x"])), -32002)


async def main():
    editor = Editor()
    async with connected(editor) as agent:
        session = await one_session(editor, agent)
        told = editor.text()
        await follow_up(editor, agent, session)
        await cancelled(editor, agent, session)
        await failed(agent, session)
        await settings(agent, session)
        await loaded(session, told)
        await two_sessions(agent, session)
    print(session)


asyncio.run(main())
