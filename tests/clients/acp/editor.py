"""An editor made of the published package `agent-client-protocol`: what it was told, and what it answers."""
import asyncio
import json
import os

import acp
from acp.ws import create_websocket_stream

# A bound on hanging.
PATIENCE_S = 120


class Editor(acp.Client):
    """Keeps what it is told, in order, and answers permission requests with `choice`; `None` lets them wait."""

    def __init__(self, choice="yes"):
        self.choice = choice
        self.updates = []
        self.asked = []
        self.changed = asyncio.Condition()

    async def tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def session_update(self, session_id, update, **meta):
        self.updates.append((session_id, update, meta))
        await self.tell()

    async def request_permission(self, session_id, tool_call, options, **meta):
        self.asked.append((session_id, tool_call, [option.option_id for option in options]))
        await self.tell()
        async with self.changed:
            await self.changed.wait_for(lambda: self.choice is not None)
        outcome = {"outcome": "cancelled"} if self.choice == "closed" else {
            "outcome": "selected", "optionId": self.choice}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def choose(self, choice):
        self.choice = choice
        await self.tell()

    async def until(self, condition):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(condition), PATIENCE_S)

    def of_kind(self, kind):
        return [update for _, update, _ in self.updates if update.session_update == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of_kind(kind))

    def seq(self):
        """The last event that it was told of."""
        return max((meta["seq"] for _, _, meta in self.updates if "seq" in meta), default=0)


class Connection:
    """A connection by WebSocket, and its end as a cut cable makes it."""

    def __init__(self, transport, agent):
        self.transport, self.agent = transport, agent

    @classmethod
    async def open(cls, editor, url=None, token=None, query=""):
        url = (url or os.environ["URL"]).replace("http", "ws", 1) + "/acp" + query
        token = os.environ["TOKEN"] if token is None else token
        transport = await create_websocket_stream(url, headers={"Authorization": f"Bearer {token}"})
        agent = acp.connect_to_agent(editor, transport)
        told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert told.protocol_version == 1 and told.agent_capabilities.load_session, told
        return cls(transport, agent)

    async def cut(self):
        self.transport._ws.transport.abort()
        await self.agent.close()


def steps(*steps):
    """A prompt for the agent of the tests, which does these steps."""
    return [acp.text_block(json.dumps(steps))]


def tool(status, **fields):
    kind = "tool_call" if status == "pending" else "tool_call_update"
    return ["update", {"sessionUpdate": kind, "toolCallId": "c1", "status": status, **fields}]


def permission(command):
    call = {"toolCallId": "c2", "title": command, "kind": "execute", "rawInput": {"command": command}}
    return ["permission", call]


async def ended(future):
    return await asyncio.wait_for(future, PATIENCE_S)


async def fails(future, code):
    """The request must fail with this code; returns the error."""
    try:
        result = await ended(future)
    except acp.RequestError as error:
        assert error.code == code, f"{error.code}: {error}"
        return error
    raise AssertionError(f"no error but {result}")
