"""The client that openapi-python-client makes of docs/openapi.json: it imports, and it reads what hostd sends."""

import importlib
import pkgutil
import sys

sys.path.insert(0, sys.argv[1])

import slipway_client  # noqa: E402
from slipway_client.models import (  # noqa: E402
    EventViewPage,
    ExecEndedEvent,
    SandboxView,
    ServiceView,
    TaskLogEvent,
)

modules = [module.name for module in pkgutil.walk_packages(slipway_client.__path__, "slipway_client.")]
for module in modules:
    importlib.import_module(module)

service = {"name": "web", "source": "api", "command": "x", "restarts": 0}
for state in (
    {"state": "waiting", "on": ["db"]},
    {"state": "starting"},
    {"state": "ready", "since_ms": 1},
    {"state": "unhealthy", "since_ms": 1, "reason": "no answer"},
    {"state": "backoff", "next_try_ms": 1, "failures": 2, "last_exit": {"kind": "exited", "code": 1}},
    {"state": "failed_dependency", "on": "db"},
):
    view = ServiceView.from_dict(service | state)
    assert view.state == state["state"], view
    assert view.to_dict() == service | state, view.to_dict()

sandbox = "01jb9xyzabcdefghjkmnpqrstv"
events = [
    {"seq": 1, "time": "2026-01-01T00:00:00Z", "sandbox": sandbox, "task": "t", "kind": "log", "text": "x", "stream": "stderr"},
    {"seq": 2, "time": "2026-01-01T00:00:00Z", "sandbox": sandbox, "kind": "exec.ended",
     "data": {"exec": "e", "exit": {"kind": "exited", "code": 3}, "output_end": 7, "background": 0}},
]
log, ended = EventViewPage.from_dict({"items": events, "next": None}).items
assert isinstance(log, TaskLogEvent) and log.text == "x", log
assert isinstance(ended, ExecEndedEvent) and ended.data.exit_.code == 3, ended
assert SandboxView.from_dict  # of a flattened owner
print(f"{len(modules)} modules")
