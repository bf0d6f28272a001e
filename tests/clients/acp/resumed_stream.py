"""Streams over HTTP that break begin again after the last event id, as `curl -N` with `Last-Event-ID` would."""
import asyncio
import json
import os

import httpx
from editor import PATIENCE_S, steps

URL = os.environ["URL"] + "/acp"


async def frames(client, headers, until):
    """Reads frames up to the first that is wanted: pairs of id and message."""
    read, number = [], None
    async with client.stream("GET", URL, headers={"Accept": "text/event-stream", **headers}) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                number = line.removeprefix("id: ")
            elif line.startswith("data: "):
                read.append((number, json.loads(line.removeprefix("data: "))))
                number = None
                if until(read[-1][1]):
                    return read
    raise AssertionError(f"the stream ended: {read}")


async def main():
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as client:
        async def post(number, method, params, **more):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            return await client.post(URL, json=message, **more)

        begun = await post(0, "initialize", {"protocolVersion": 1})
        connection = {"Acp-Connection-Id": begun.headers["Acp-Connection-Id"]}
        made = await post(1, "session/new", {"cwd": "/x", "_meta": {"agent": "fake"}}, headers=connection)
        assert made.status_code == 202, made.text
        answered = lambda number: lambda message: message.get("id") == number
        [(first, new)] = await frames(client, connection, answered(1))
        assert await frames(client, connection | {"Last-Event-ID": "7"}, answered(1)) == [(first, new)], "not repeated"
        session = {"sessionId": new["result"]["sessionId"]}
        here = connection | {"Acp-Session-Id": session["sessionId"]}
        prompt = [block.model_dump(mode="json", exclude_none=True) for block in steps(*[["say", f"{n}\n"] for n in range(100)])]
        sent = await post("p", "session/prompt", {**session, "prompt": prompt}, headers=here)
        assert sent.status_code == 202, sent.text
        whole = await frames(client, here, answered("p"))
        # The stream broke after each tenth of them.
        pieces, last, wanted = [], "0", len(whole) // 10 + 1
        while not pieces or not answered("p")(pieces[-1][1]):
            count = iter(range(wanted))
            enough = lambda message: answered("p")(message) or next(count) == wanted - 1
            piece = await frames(client, here | {"Last-Event-ID": last}, enough)
            pieces += piece
            last = piece[-1][0]
        assert pieces == whole, "a message was lost, or came twice"
        numbers = [int(number) for number, _ in whole]
        assert numbers == sorted(set(numbers)), numbers
        text = "".join(message["params"]["update"]["content"]["text"] for _, message in whole[:-1])
        assert text == "".join(f"{n}\n" for n in range(100)), text
        assert whole[-1][1]["result"]["stopReason"] == "end_turn", whole[-1]

        async def ends(number, method):
            """Sends a request while the session's stream is open, which then ends."""
            async with client.stream("GET", URL, headers={"Accept": "text/event-stream", **here}) as response:
                sent = await post(number, method, {**session, "cwd": "/x", "mcpServers": []}, headers=here)
                assert sent.status_code == 202, sent.text
                async for _ in response.aiter_lines():
                    pass

        # The session is another one then, or none: its client opens a stream of that.
        await asyncio.wait_for(ends("l", "session/load"), PATIENCE_S)
        await asyncio.wait_for(ends("c", "session/close"), PATIENCE_S)


asyncio.run(main())
