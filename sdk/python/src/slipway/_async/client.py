"""The client: an address, a token, and the resources below them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import httpx

from .._result import environment, given, segment
from .._retry import Repeatable, RetryPolicy
from ..errors import SlipwayError
from ..types import AgentView, EventView, ModelView, OwnQuota, SandboxSpec, SandboxStatus, SandboxView, SecretView
from .pages import items
from .sandbox import PATH, AsyncSandbox
from .snapshots import AsyncSnapshots
from .stream import events
from .transport import OPERATION_S, AsyncTransport, Call

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncSlipway:
    """A client of one hostd. Without an address and a token: those of `SLIPWAY_URL` and `SLIPWAY_TOKEN`.

    `timeout_s` is for a call that does not say, with its repetitions; 0 is for ever. A stream that sends no byte for
    `silence_s` is dead and is opened again (hostd sends one every 15 seconds); one that cannot be opened again for
    `outage_s` fails. `http` is used instead of a client of its own.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retry: RetryPolicy | None = None,
        silence_s: float = 40.0,
        outage_s: float = 120.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        address = url or environment("SLIPWAY_URL")
        if address is None:
            raise SlipwayError("needs the URL of hostd, or SLIPWAY_URL")
        # A token of the environment is for the address of the environment.
        if token is None and url is None:
            token = environment("SLIPWAY_TOKEN")
        self._transport = AsyncTransport(
            address, token, timeout_s=timeout_s, retry=retry, silence_s=silence_s, outage_s=outage_s, http=http
        )
        self.sandboxes = AsyncSandboxes(self._transport)
        self.snapshots = AsyncSnapshots(self._transport)
        self.secrets = AsyncSecrets(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.url!r})"

    async def __aenter__(self) -> AsyncSlipway:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._transport.aclose()

    def events(
        self,
        *,
        sandbox: str | None = None,
        task: str | None = None,
        since: int | None = None,
        kind: str | list[str] | None = None,
    ) -> AsyncIterator[EventView]:
        """Events of everything that the caller may see, as they happen. It does not end by itself."""
        return events(self._transport, "/v1/events", given(sandbox=sandbox, task=task), since, kind)

    def agents(self) -> AsyncIterator[AgentView]:
        return items(self._transport, "/v1/agents")

    def models(self) -> AsyncIterator[ModelView]:
        return items(self._transport, "/v1/models")

    async def quota(self, *, call_timeout_s: float | None = None) -> OwnQuota:
        """Returns what the caller may use, and does use."""
        return await self._transport.json(Call("GET", "/v1/quota"), call_timeout_s)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        json: Any = None,
        repeatable: Repeatable | None = None,
        creates: bool = False,
        call_timeout_s: float | None = None,
    ) -> Any:
        """Any call of the API that has no method here, with the same token, repetitions and errors."""
        call = Call(method, path, query or {}, json=json, repeatable=repeatable, creates=creates)
        return await self._transport.json(call, call_timeout_s)


class AsyncSandboxes:
    """Sandboxes of the caller."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        *,
        wait: str | None = None,
        replace: bool | None = None,
        call_timeout_s: float | None = None,
        **spec: Unpack[SandboxSpec],
    ) -> AsyncSandbox:
        """Creates a sandbox, and waits until it runs. A repeated request, after a cut connection, creates no second
        one. `replace` takes the name from the living sandbox that has it, and destroys that one."""
        query = given(wait=wait, replace=replace)
        call = Call("POST", PATH, query, json=spec, creates=True, default_s=OPERATION_S)
        return AsyncSandbox(self._transport, await self._transport.json(call, call_timeout_s))

    async def ensure(
        self, *, wait: str | None = None, call_timeout_s: float | None = None, **spec: Unpack[SandboxSpec]
    ) -> AsyncSandbox:
        """The sandbox of this owner and `scope`, awake; created if there is none."""
        # At most one has the scope: repeating it is safe without a key, and brings the present state.
        call = Call("POST", f"{PATH}/ensure", given(wait=wait), json=spec, repeatable="safe", default_s=OPERATION_S)
        return AsyncSandbox(self._transport, await self._transport.json(call, call_timeout_s))

    async def get(self, id: str, *, call_timeout_s: float | None = None) -> AsyncSandbox:
        view = await self._transport.json(Call("GET", f"{PATH}/{segment(id)}"), call_timeout_s)
        return AsyncSandbox(self._transport, view)

    def list(
        self, *, status: SandboxStatus | None = None, project: str | None = None, all: bool | None = None
    ) -> AsyncIterator[SandboxView]:
        """Newest first; with `all` also those that were destroyed."""
        return items(self._transport, PATH, given(status=status, project=project, all=all))

    async def delete(
        self,
        id: str,
        *,
        workspace: Literal["keep", "remove"] | None = None,
        wait: str | None = None,
        call_timeout_s: float | None = None,
    ) -> SandboxView:
        """Destroys a sandbox, with its files unless they are kept."""
        query = given(wait=wait, workspace=workspace)
        return await self._transport.json(
            Call("DELETE", f"{PATH}/{segment(id)}", query, default_s=OPERATION_S), call_timeout_s
        )


class AsyncSecrets:
    """Secrets of the tenant. No answer has their values."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self) -> AsyncIterator[SecretView]:
        return items(self._transport, "/v1/secrets")

    async def put(self, name: str, secret: dict[str, Any], *, call_timeout_s: float | None = None) -> SecretView:
        return await self._transport.json(Call("PUT", f"/v1/secrets/{segment(name)}", json=secret), call_timeout_s)

    async def delete(self, name: str, *, call_timeout_s: float | None = None) -> None:
        await self._transport.done(Call("DELETE", f"/v1/secrets/{segment(name)}"), call_timeout_s)
