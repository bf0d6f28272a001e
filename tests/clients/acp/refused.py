"""What hostd refuses, in the protocol's own form: wrong tokens, other tenants' sessions, messages that are none."""
import asyncio
import json
import os
import sys

import httpx
import websockets
from editor import PATIENCE_S, Connection, Editor, ended, fails, steps

URL = os.environ["URL"]
SOCKET = URL.replace("http", "ws", 1) + "/acp"
TOKEN = {"Authorization": f"Bearer {os.environ['TOKEN']}"}


def connect(headers=TOKEN, url=SOCKET):
    return websockets.connect(url, additional_headers=headers, open_timeout=PATIENCE_S)


async def handshakes():
    refused = [
        ({}, SOCKET, 401),
        ({"Authorization": "Bearer wrong"}, SOCKET, 401),
        ({"Authorization": "Basic eDp5"}, SOCKET, 401),
        ({**TOKEN, "X-API-KEY": "e2b_00"}, SOCKET, 400),
        ({**TOKEN, "Origin": "http://evil.example"}, SOCKET, 403),
        (TOKEN, SOCKET + "?sandboxes=x", 400),
        (TOKEN, SOCKET + "/x", 404),
    ]
    for headers, url, status in refused:
        try:
            async with connect(headers, url):
                raise AssertionError(f"{url} {headers} was accepted")
        except websockets.InvalidStatus as error:
            assert error.response.status_code == status, (url, headers, error.response)
            assert json.loads(error.response.body)["error"]["message"], error.response.body
    # As a page in a browser sends its token.
    protocols = ["slipway.acp", "slipway.token." + os.environ["TOKEN"]]
    async with websockets.connect(SOCKET, subprotocols=protocols) as socket:
        assert socket.subprotocol == "slipway.acp", socket.subprotocol


async def answer(socket, text):
    await socket.send(text)
    return json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))


async def garbage():
    async with connect() as socket:
        for text, number, code in [
            ("{", None, -32700),
            ("[]", None, -32600),
            ('{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}', 1, -32601),
            ('{"jsonrpc":"2.0","id":2,"method":"session/fork"}', 2, -32601),
            ('{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}', 3, -32002),
            ('{"jsonrpc":"2.0","id":4,"method":"session/new","params":{}}', 4, -32602),
            ('{"jsonrpc":"2.0","id":5,"method":"session/new","params":{"cwd":"/","_meta":{"agent":"x"}}}', 5, -32602),
            ('{"jsonrpc":"2.0","id":6,"method":"session/new","params":{"cwd":"/","_meta":{"sandbox":"x"}}}', 6, -32002),
            ('{"id":7,"method":"initialize"}', 7, -32600),
        ]:
            told = await answer(socket, text)
            assert (told["id"], told["error"]["code"]) == (number, code), (text, told)
        # Neither notifications nor responses that mean nothing are answered.
        for text in ['{"jsonrpc":"2.0","method":"session/cancel","params":{}}', '{"jsonrpc":"2.0","id":"x/y/z","result":{}}']:
            await socket.send(text)
        await socket.send(b"\x00\x01")
        told = await answer(socket, '{"jsonrpc":"2.0","id":"last","method":"initialize","params":{"protocolVersion":9}}')
        assert told["id"] == "last" and told["result"]["protocolVersion"] == 1, told
    async with connect() as socket:
        await socket.send("x" * ((1 << 20) + 1))
        try:
            await asyncio.wait_for(socket.recv(), PATIENCE_S)
            raise AssertionError("a message that is too large was taken")
        except websockets.ConnectionClosedError as error:
            assert error.rcvd.code == 1009, error


async def other_tenants():
    own, other = Editor(), Editor()
    mine = await Connection.open(own)
    theirs = await Connection.open(other, token=os.environ["OTHER_TOKEN"])
    session = (await ended(mine.agent.new_session(cwd="/x", agent="fake"))).session_id
    stranger = theirs.agent
    for request in [
        stranger.load_session(cwd="/x", session_id=session),
        stranger.resume_session(cwd="/x", session_id=session),
        stranger.prompt(session_id=session, prompt=steps(["say", "x"])),
        stranger.set_session_mode(session_id=session, mode_id="ask"),
        stranger.close_session(session_id=session),
        stranger.new_session(cwd="/x", agent="fake", sandbox=session.split(".")[0]),
    ]:
        await fails(request, -32002)
    assert not (await ended(stranger.list_sessions())).sessions
    # A session that was never made, in a sandbox of one's own.
    made_up = session[:-1] + ("0" if session[-1] != "0" else "1")
    await fails(mine.agent.prompt(session_id=made_up, prompt=steps(["say", "x"])), -32002)
    await mine.agent.close()
    await theirs.agent.close()


async def by_http():
    async with httpx.AsyncClient(headers=TOKEN, timeout=PATIENCE_S) as client:
        initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
        new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/x"}}
        url = URL + "/acp"
        begun = await client.post(url, json=initialize)
        assert begun.status_code == 200 and begun.json()["result"]["protocolVersion"] == 1, begun.text
        known = {"Acp-Connection-Id": begun.headers["Acp-Connection-Id"]}
        other = {"Authorization": f"Bearer {os.environ['OTHER_TOKEN']}"}
        for arguments, status in [
            ({"json": new}, 400),
            ({"json": new, "headers": {"Acp-Connection-Id": "x.y"}}, 404),
            ({"json": new, "headers": {**known, **other}}, 404),
            ({"json": new, "headers": {"Authorization": "Bearer wrong"}}, 401),
            ({"json": {**new, "params": {"sessionId": "y"}}, "headers": {**known, "Acp-Session-Id": "x"}}, 400),
            ({"content": "{", "headers": {**known, "Content-Type": "application/json"}}, 400),
            ({"content": "x", "headers": {**known, "Content-Type": "text/plain"}}, 400),
            ({"json": {**new, "params": {"cwd": "x" * (2 << 20)}}, "headers": known}, 413),
        ]:
            refused = await client.post(url, **arguments)
            assert refused.status_code == status and refused.json()["error"], (arguments, refused.text)
        streams = [({}, 400), (known | {"Acp-Session-Id": "x"}, 404), (known | {"Last-Event-ID": "x"}, 400)]
        for headers, status in streams:
            refused = await client.get(url, headers={"Accept": "text/event-stream", **headers})
            assert refused.status_code == status, (headers, refused.text)
        assert (await client.put(url)).status_code == 405
        assert (await client.delete(url, headers=known | other)).status_code == 404
        assert (await client.delete(url, headers=known)).status_code == 202
        assert (await client.post(url, json=new, headers=known)).status_code == 404, "it was closed"


async def revoked():
    """A token that is revoked while its connection is open is worth nothing from then on."""
    connection = await Connection.open(Editor())
    await ended(connection.agent.list_sessions())
    print("revoke", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for request in [connection.agent.list_sessions(), connection.agent.new_session(cwd="/x")]:
        await fails(request, -32000)
    await connection.agent.close()


async def main():
    await handshakes()
    await garbage()
    await other_tenants()
    await by_http()
    await revoked()


asyncio.run(main())
