"""Client of Slipway.

>>> from slipway import Slipway
>>> slipway = Slipway("http://127.0.0.1:9090", token)
>>> sandbox = slipway.sandboxes.create(name="web")
>>> sandbox.run("echo hello").stdout
'hello\\n'

`AsyncSlipway` has the same methods for asyncio.
"""

from . import types
from ._async.client import AsyncSlipway
from ._async.execs import AsyncExec, AsyncTerminal
from ._async.sandbox import AsyncSandbox
from ._async.snapshots import AsyncSnapshot
from ._async.tasks import AsyncTask
from ._result import FileEvent, Output, RunResult
from ._retry import RetryPolicy
from ._sync.client import Slipway
from ._sync.execs import Exec, Terminal
from ._sync.sandbox import Sandbox
from ._sync.snapshots import Snapshot
from ._sync.tasks import Task
from .errors import (
    ApiError,
    AuthenticationError,
    CommandError,
    ConflictError,
    DeadlineExceededError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    LimitError,
    NotFoundError,
    ProtocolError,
    SandboxError,
    SlipwayError,
    TransportError,
    UnavailableError,
)

__all__ = [
    "ApiError",
    "AsyncExec",
    "AsyncSandbox",
    "AsyncSlipway",
    "AsyncSnapshot",
    "AsyncTask",
    "AsyncTerminal",
    "AuthenticationError",
    "CommandError",
    "ConflictError",
    "DeadlineExceededError",
    "Exec",
    "FileEvent",
    "ForbiddenError",
    "GoneError",
    "InvalidRequestError",
    "LimitError",
    "NotFoundError",
    "Output",
    "ProtocolError",
    "RetryPolicy",
    "RunResult",
    "Sandbox",
    "SandboxError",
    "Slipway",
    "SlipwayError",
    "Snapshot",
    "Task",
    "Terminal",
    "TransportError",
    "UnavailableError",
    "types",
]
