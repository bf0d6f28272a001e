"""Everything that the control plane alone can do, with the package e2b as it is installed, of any version.

usage: control_plane.py VERSION
The first output line is a sandbox that is left paused, the second one that is left running.
"""

import time
import sys
from importlib.metadata import version

import e2b
from e2b import AuthenticationException, NotFoundException, Sandbox, SandboxException, SandboxQuery, SandboxState

PATIENCE_S = 60
UNKNOWN = "01jb9xyzabcdefghjkmnpqrstv"


def until(what, look):
    """Polls until `look` is true; the bound is only one on hanging."""
    end = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.02)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def create_that_pauses(**options):
    if hasattr(Sandbox, "beta_create") and not hasattr(Sandbox, "create_snapshot"):
        return Sandbox.beta_create(auto_pause=True, **options)
    return Sandbox.create(lifecycle={"on_timeout": "pause"}, **options)


def pause(sandbox):
    return sandbox.pause() if hasattr(sandbox, "pause") else sandbox.beta_pause()


def state(sandbox_id):
    return Sandbox.get_info(sandbox_id).state


def is_gone(sandbox_id):
    try:
        Sandbox.get_info(sandbox_id)
        return False
    except NotFoundException:
        return True


def pages(**options):
    paginator = Sandbox.list(**options)
    found = []
    while paginator.has_next:
        page = paginator.next_items()
        assert len(page) <= options.get("limit", 100)
        found.append([info.sandbox_id for info in page])
    return found


def create_and_look():
    sandbox = Sandbox.create(timeout=600, metadata={"kind": "a b", "mark": "ü&=+%"}, envs={"NAME": "value"})
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.template_id == "base", info
    assert info.metadata == {"kind": "a b", "mark": "ü&=+%"}, info
    assert info.state == SandboxState.RUNNING, info
    left = (info.end_at - info.started_at).total_seconds()
    assert 590 < left < 700, left
    assert info.cpu_count >= 1 and info.memory_mb >= 32 and info.envd_version >= "0.6.4", info
    assert sandbox.get_host(3000).startswith(f"3000-{sandbox.sandbox_id}."), sandbox.get_host(3000)
    # The default of an SDK.
    short = Sandbox.create(metadata={"kind": "short"})
    left = (short.get_info().end_at - short.get_info().started_at).total_seconds()
    assert 290 < left < 360, left
    assert short.kill() is True and is_gone(short.sandbox_id)
    assert Sandbox.kill(short.sandbox_id) is False
    return sandbox


def list_in_pages(sandbox):
    others = [Sandbox.create(timeout=600, metadata={"kind": "listed", "number": str(number)}) for number in range(3)]
    ids = [other.sandbox_id for other in reversed(others)]
    query = SandboxQuery(metadata={"kind": "listed"})
    assert pages(query=query) == [ids]
    assert pages(query=query, limit=2) == [ids[:2], ids[2:]]
    assert pages(query=SandboxQuery(metadata={"kind": "a b", "mark": "ü&=+%"})) == [[sandbox.sandbox_id]]
    assert pages(query=SandboxQuery(metadata={"kind": "absent"})) == [[]]
    pause(others[0])
    paused = SandboxQuery(metadata={"kind": "listed"}, state=[SandboxState.PAUSED])
    running = SandboxQuery(metadata={"kind": "listed"}, state=[SandboxState.RUNNING])
    both = SandboxQuery(metadata={"kind": "listed"}, state=[SandboxState.RUNNING, SandboxState.PAUSED])
    assert pages(query=paused) == [[others[0].sandbox_id]]
    assert pages(query=running) == [ids[:2]]
    assert pages(query=both) == [ids]
    assert raises(SandboxException, lambda: pages(next_token="nonsense"))
    for other in others:
        assert other.kill() is True


def expire():
    killed = Sandbox.create(timeout=600)
    killed.set_timeout(1)
    until("its timeout kills it", lambda: is_gone(killed.sandbox_id))
    raises(NotFoundException, lambda: killed.set_timeout(10))
    raises(NotFoundException, lambda: Sandbox.connect(killed.sandbox_id))
    kept = create_that_pauses(timeout=600)
    kept.set_timeout(1)
    until("its timeout pauses it", lambda: state(kept.sandbox_id) == SandboxState.PAUSED)
    again = Sandbox.connect(kept.sandbox_id, timeout=600)
    info = again.get_info()
    assert info.state == SandboxState.RUNNING, info
    # It pauses again.
    again.set_timeout(1)
    until("its new timeout pauses it", lambda: state(kept.sandbox_id) == SandboxState.PAUSED)
    assert again.kill() is True


def pause_and_connect(sandbox):
    assert pause(sandbox) in (True, None, sandbox.sandbox_id)
    assert state(sandbox.sandbox_id) == SandboxState.PAUSED
    # A second one changes nothing.
    pause(sandbox)
    raises(NotFoundException, lambda: sandbox.set_timeout(100))
    assert sandbox.get_metrics() == []
    again = Sandbox.connect(sandbox.sandbox_id, timeout=900)
    info = again.get_info()
    assert info.state == SandboxState.RUNNING, info
    assert info.metadata == {"kind": "a b", "mark": "ü&=+%"}, info
    # A sandbox that runs is only given more time.
    until_then = info.end_at
    assert Sandbox.connect(sandbox.sandbox_id, timeout=10).get_info().end_at == until_then
    assert Sandbox.connect(sandbox.sandbox_id, timeout=1800).get_info().end_at > until_then
    metrics = again.get_metrics()
    assert len(metrics) == 1 and metrics[0].mem_total > 0 and metrics[0].cpu_count >= 1, metrics
    return again


def snapshots(sandbox):
    taken = sandbox.create_snapshot(name=f"made by {version('e2b')}")
    assert taken.names == [f"made by {version('e2b')}"], taken
    unnamed = sandbox.create_snapshot()
    listed = []
    paginator = Sandbox.list_snapshots(limit=1)
    while paginator.has_next:
        listed += [snapshot.snapshot_id for snapshot in paginator.next_items()]
    assert listed == [unnamed.snapshot_id, taken.snapshot_id], listed
    of_sandbox = sandbox.list_snapshots().next_items()
    assert [snapshot.snapshot_id for snapshot in of_sandbox] == listed, of_sandbox
    for template in (taken.snapshot_id, taken.names[0]):
        made = Sandbox.create(template, timeout=600, metadata={"from": "snapshot"})
        info = made.get_info()
        assert info.template_id == template and info.metadata == {"from": "snapshot"}, info
        assert made.kill() is True
    assert Sandbox.delete_snapshot(taken.snapshot_id) is True
    assert Sandbox.delete_snapshot(taken.snapshot_id) is False
    assert taken.names[0] not in raises(SandboxException, lambda: Sandbox.create(taken.snapshot_id))
    assert Sandbox.delete_snapshot(unnamed.snapshot_id) is True
    assert Sandbox.list_snapshots().next_items() == []


def fork(sandbox):
    forks = sandbox.fork(timeout=600, count=2)
    assert len({each.sandbox_id for each in forks} - {sandbox.sandbox_id}) == 2, forks
    for each in forks:
        assert each.get_info().metadata == sandbox.get_info().metadata
        assert each.kill() is True
    assert Sandbox.list_snapshots().next_items() == []
    raises(NotFoundException, lambda: Sandbox.fork(UNKNOWN))


def network(sandbox):
    sandbox.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["example.com"]})
    rules = sandbox.get_info().network
    assert rules["deny_out"] == ["0.0.0.0/0"] and rules["allow_out"] == ["example.com"], rules
    sandbox.update_network({})
    raises(SandboxException, lambda: sandbox.update_network({"deny_out": ["192.0.2.0/24"], "allow_out": ["192.0.2.1"]}))


def refuse():
    raises(AuthenticationException, lambda: Sandbox.create(api_key="e2b_00"))
    raises(AuthenticationException, lambda: Sandbox.list(api_key="e2b_00").next_items())
    for unknown in (UNKNOWN, "nonsense"):
        raises(NotFoundException, lambda: Sandbox.connect(unknown))
        raises(NotFoundException, lambda: Sandbox.get_info(unknown))
        raises(NotFoundException, lambda: Sandbox.set_timeout(unknown, 10))
        assert Sandbox.kill(unknown) is False
    said = raises(SandboxException, lambda: Sandbox.create("no-such-template"))
    assert "404" in said and "'no-such-template' not found: use base" in said, said
    said = raises(SandboxException, lambda: Sandbox.create("no such template"))
    assert "404" in said and "not found" in said, said
    said = raises(SandboxException, lambda: Sandbox.create(timeout=10**9))
    assert "400" in said and "ttl" in said, said
    said = raises(SandboxException, lambda: Sandbox.create(envs={"A=B": "c"}))
    assert "400" in said and "env" in said, said


def main():
    assert version("e2b") == sys.argv[1], version("e2b")
    sandbox = create_and_look()
    list_in_pages(sandbox)
    expire()
    sandbox = pause_and_connect(sandbox)
    if hasattr(Sandbox, "create_snapshot"):
        snapshots(sandbox)
        network(sandbox)
    if hasattr(Sandbox, "fork"):
        fork(sandbox)
    refuse()
    other = Sandbox.create(timeout=600)
    pause(other)
    print(other.sandbox_id)
    print(sandbox.sandbox_id)


main()
