"""The data plane by the Python package e2b: commands, PTYs, files, watchers. Takes the name of a scenario.

The environment names the sandbox: ENVD_URL, ENVD_SANDBOX, ENVD_TOKEN.
"""

import os
import sys
import time

from e2b import CommandExitException, InvalidArgumentException, NotFoundException, Sandbox, TimeoutException
from e2b.connection_config import ConnectionConfig
from e2b.sandbox.commands.command_handle import PtySize
from e2b.sandbox.filesystem.filesystem import FileType
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType
from packaging.version import Version

PATIENCE_S = 60


def open_sandbox(token=None):
    token = token or os.environ["ENVD_TOKEN"]
    identity = {
        "E2b-Sandbox-Id": os.environ["ENVD_SANDBOX"],
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": token,
    }
    config = ConnectionConfig(
        api_key="e2b_00", sandbox_url=os.environ["ENVD_URL"], extra_sandbox_headers=identity
    )
    return Sandbox(
        sandbox_id=os.environ["ENVD_SANDBOX"],
        sandbox_domain=None,
        envd_version=Version("0.6.4"),
        envd_access_token=token,
        connection_config=config,
    )


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def until(what, condition):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


def commands(sandbox):
    run = sandbox.commands.run
    done = run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done
    failed = raises(CommandExitException, lambda: run("echo oops >&2; exit 7"))
    assert (failed.exit_code, failed.stderr, failed.error) == (7, "oops\n", "exit status 7"), failed
    chunks = []
    run("echo one; echo two", on_stdout=chunks.append)
    assert "".join(chunks) == "one\ntwo\n", chunks
    assert run("echo $A-$B", envs={"A": "1", "B": "ü b"}).stdout == "1-ü b\n"
    assert run("pwd; echo $HOME; echo ~; echo $USER", user="user").stdout == "/home/user\n/home/user\n/home/user\nuser\n"
    assert run("pwd", cwd="/tmp").stdout == "/tmp\n"
    sandbox.files.make_dir("deep/er")
    assert run("pwd", cwd="/home/user/deep/er").stdout == "/home/user/deep/er\n"
    assert run("pwd", cwd="deep").stdout == "/home/user/deep\n"
    raises(InvalidArgumentException, lambda: run("pwd", cwd="/nowhere"))
    assert "root" in str(raises(Exception, lambda: run("id", user="root")))
    assert run("echo $E2B_SANDBOX_ID").stdout.strip() == sandbox.sandbox_id


def big_output(sandbox):
    expected = "".join(f"{number:09}\n" for number in range(1_000_000))
    done = sandbox.commands.run("seq -f %09.0f 0 999999", timeout=PATIENCE_S * 2)
    assert len(done.stdout) == len(expected) and done.stdout == expected


def background(sandbox):
    handle = sandbox.commands.run("echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 3", background=True)
    for stdout, _, _ in handle:
        assert stdout == "first\n", stdout
        break
    listed = until("listed", lambda: [found for found in sandbox.commands.list() if found.pid == handle.pid])
    assert listed[0].cmd == "/bin/bash" and listed[0].args[:2] == ["-l", "-c"], listed
    assert listed[0].cwd == "/home/user", listed
    handle.disconnect()
    sandbox.files.write("go", "")
    again = sandbox.commands.connect(handle.pid)
    failed = raises(CommandExitException, again.wait)
    assert (failed.stdout, failed.exit_code) == ("first\nlast\n", 3), failed
    sandbox.files.remove("go")
    # After its end, too: what no client has seen is not lost.
    failed = raises(CommandExitException, lambda: sandbox.commands.connect(handle.pid).wait())
    assert (failed.stdout, failed.exit_code) == ("first\nlast\n", 3), failed
    raises(NotFoundException, lambda: sandbox.commands.connect(4_000_000))


def stdin(sandbox):
    handle = sandbox.commands.run("read line; echo got $line; exec cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "hello\n")
    if hasattr(sandbox.commands, "stream_input"):
        sandbox.commands.stream_input(handle.pid, ["a", b"b", "ü\n"])
    else:
        sandbox.commands.send_stdin(handle.pid, "abü\n")
    if hasattr(sandbox.commands, "close_stdin"):
        sandbox.commands.close_stdin(handle.pid)
        assert handle.wait().stdout == "got hello\nabü\n"
    else:
        until_text(handle, "abü\n")
        assert handle.kill()
    # Without stdin a command reads its end at once.
    assert sandbox.commands.run("cat; echo ended").stdout == "ended\n"
    raises(Exception, lambda: sandbox.commands.send_stdin(4_000_000, "x"))


def until_text(handle, text):
    seen = ""
    for stdout, _, pty in handle:
        seen += stdout or (pty or b"").decode()
        if text in seen:
            return seen
    raise AssertionError(f"{text!r} is not in {seen!r}")


def kill(sandbox):
    handle = sandbox.commands.run("sleep 1000 & echo child $!; wait", background=True)
    child = until_text(handle, "\n").split()[-1]
    assert sandbox.commands.kill(handle.pid) is True
    failed = raises(CommandExitException, handle.wait)
    assert failed.exit_code == -1 and "killed" in failed.error, failed
    assert sandbox.commands.kill(handle.pid) is False
    assert all(found.pid != handle.pid for found in sandbox.commands.list())
    raises(CommandExitException, lambda: sandbox.commands.run(f"kill -0 {child}"))


def timeout(sandbox):
    error = raises(TimeoutException, lambda: sandbox.commands.run("echo $$ >pid; exec sleep 1000", timeout=2))
    assert "timeout" in str(error), error
    # The process is killed, not only left.
    until("killed", lambda: sandbox.commands.run("kill -0 $(cat pid) 2>&- && echo lives || echo gone").stdout == "gone\n")


def pty(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100), cwd="/tmp", envs={"MARK": "x1"})
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $MARK-$(pwd)\n")
    seen = until_text(terminal, "x1-/tmp")
    assert "30 100" in seen, seen
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo do''ne\n")
    assert "40 120" in until_text(terminal, "done")
    sandbox.pty.send_stdin(terminal.pid, b"exit 0\n")
    assert terminal.wait().exit_code == 0
    other = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(other.pid) is True


ODD_NAMES = ["a b.txt", "ü-é-漢字.txt", "-dash", "quo'te", "per%cent%20", "plus+&=?#", "back\\slash", "emoji🙂", "new\nline"]


def files(sandbox):
    fs = sandbox.files
    written = fs.write("/home/user/x", "text")
    assert (written.name, written.path) == ("x", "/home/user/x"), written
    assert written.type in (FileType.FILE, FileType.FILE.value), written
    assert sandbox.commands.run("cat x; cat /home/user/x; cat ~/x; cat $HOME/x").stdout == "text" * 4
    sandbox.commands.run("printf by-command >/home/user/y")
    assert fs.read("y") == "by-command"
    fs.write("x", "other")
    assert fs.read("/home/user/x") == "other" and fs.read("x", format="bytes") == b"other"
    binary = bytes(range(256)) * 10
    fs.write("binary", binary)
    assert fs.read("binary", format="bytes") == binary
    for name in ODD_NAMES:
        fs.write(f"odd/{name}", name)
        assert fs.read(f"odd/{name}") == name, name
        assert fs.get_info(f"odd/{name}").name == name
    assert sorted(entry.name for entry in fs.list("odd")) == sorted(ODD_NAMES)
    several = [{"path": f"many/{number}", "data": str(number)} for number in range(5)]
    assert [info.path for info in fs.write_files(several)] == [f"/home/user/many/{number}" for number in range(5)]
    assert [fs.read(f"many/{number}") for number in range(5)] == list("01234")
    raises(NotFoundException, lambda: fs.read("missing"))
    raises(InvalidArgumentException, lambda: fs.read("many"))
    raises(InvalidArgumentException, lambda: fs.write("many", "x"))
    raises(Exception, lambda: fs.read("x", user="root"))


def directories(sandbox):
    fs = sandbox.files
    assert fs.make_dir("tree/a/b") is True and fs.make_dir("tree/a/b") is False
    fs.write("tree/a/b/file", "12345")
    assert fs.exists("tree/a/b/file") and not fs.exists("tree/none")
    info = fs.get_info("tree/a/b/file")
    assert (info.type, info.path, info.size) == (FileType.FILE, "/home/user/tree/a/b/file", 5), info
    assert (info.mode, info.permissions) == (0o644, "-rw-r--r--"), info
    assert (info.owner, info.group) == ("user", "user"), info
    assert abs(info.modified_time.timestamp() - time.time()) < 3600, info
    top = fs.get_info("tree")
    assert (top.type, top.mode, top.permissions) == (FileType.DIR, 0o755, "drwxr-xr-x"), top
    assert [entry.path for entry in fs.list("tree")] == ["/home/user/tree/a"]
    deep = [entry.path for entry in fs.list("/home/user/tree", depth=3)]
    assert deep == ["/home/user/tree/a", "/home/user/tree/a/b", "/home/user/tree/a/b/file"], deep
    raises(NotFoundException, lambda: fs.list("none"))
    raises(InvalidArgumentException, lambda: fs.list("tree/a/b/file"))
    sandbox.commands.run("ln -s a/b/file tree/link; ln -s /tmp tree/out; ln -s nowhere tree/dangling")
    link = fs.get_info("tree/link")
    assert link.symlink_target == "/home/user/tree/a/b/file" and fs.read("tree/link") == "12345", link
    # A link that leads out of the workspace is followed inside the sandbox.
    fs.write("tree/out/by-link", "out")
    assert sandbox.commands.run("cat /tmp/by-link").stdout == "out" and fs.read("tree/out/by-link") == "out"
    assert fs.get_info("tree/dangling").symlink_target == "/home/user/tree/nowhere"
    moved = fs.rename("tree/a/b/file", "moved/file")
    assert moved.path == "/home/user/moved/file" and fs.read("moved/file") == "12345"
    raises(NotFoundException, lambda: fs.rename("none", "other"))
    fs.remove("tree")
    assert not fs.exists("tree")
    fs.remove("tree")


def elsewhere(sandbox):
    fs = sandbox.files
    # Files of the kernel do not tell their size.
    assert len(fs.read("/proc/sys/kernel/random/boot_id").strip()) == 36
    assert fs.read("/etc/hosts") and fs.get_info("/etc/hosts").owner in ("root", "nobody")
    assert fs.get_info("/bin/sh").type is not None
    fs.write("/tmp/new/x", "there")
    assert sandbox.commands.run("cat /tmp/new/x").stdout == "there"
    assert fs.get_info("/tmp/new/x").owner == "user"
    assert [entry.path for entry in fs.list("/tmp/new")] == ["/tmp/new/x"]
    fs.rename("/tmp/new/x", "from-tmp")
    assert fs.read("/home/user/from-tmp") == "there" and not fs.exists("/tmp/new/x")
    fs.make_dir("dir-to-tmp")
    fs.write("dir-to-tmp/f", "f")
    fs.rename("dir-to-tmp", "/tmp/dir")
    assert fs.read("/tmp/dir/f") == "f" and not fs.exists("dir-to-tmp")
    raises(Exception, lambda: fs.write("/usr/x", "read-only"))
    raises(Exception, lambda: fs.write("/etc/hosts", "read-only"))
    fs.remove("/tmp/new")
    assert not fs.exists("/tmp/new")


def big_files(sandbox):
    content = os.urandom(1 << 20) * 20
    sandbox.files.write("big", content)
    digest = sandbox.commands.run("sha256sum big").stdout.split()[0]
    import hashlib

    assert digest == hashlib.sha256(content).hexdigest()
    assert sandbox.files.read("big", format="bytes") == content
    parts = b"".join(sandbox.files.read("big", format="stream"))
    assert parts == content
    import inspect

    options = inspect.signature(sandbox.files.write).parameters
    if "use_octet_stream" in options:
        sandbox.files.write("big2", content, use_octet_stream=True)
        assert sandbox.files.read("big2", format="bytes") == content
    if "gzip" in options:
        sandbox.files.write("big3", b"text " * 1_000_000, gzip=True)
        assert sandbox.files.read("big3", format="bytes", gzip=True) == b"text " * 1_000_000


def watch(sandbox):
    fs = sandbox.files
    fs.make_dir("watched/sub")
    one, two = fs.watch_dir("watched"), fs.watch_dir("watched", recursive=True)

    def sees(handle, kind, name):
        seen = []

        def found():
            seen.extend((event.type, event.name) for event in handle.get_new_events())
            return (kind, name) in seen

        until(f"{kind} {name}", found)
        return seen

    fs.write("watched/new", "1")
    assert (FilesystemEventType.CREATE, "new") in sees(one, FilesystemEventType.WRITE, "new")
    sees(two, FilesystemEventType.CREATE, "new")
    sandbox.commands.run("echo 2 >>watched/new")
    sees(one, FilesystemEventType.WRITE, "new")
    fs.write("watched/sub/deep", "1")
    sees(two, FilesystemEventType.CREATE, "sub/deep")
    fs.rename("watched/new", "watched/newer")
    sees(one, FilesystemEventType.RENAME, "new")
    fs.remove("watched/newer")
    seen = sees(one, FilesystemEventType.REMOVE, "newer")
    assert all("deep" not in name for _, name in seen), seen
    sees(two, FilesystemEventType.REMOVE, "newer")
    one.stop()
    # The other one goes on.
    fs.write("watched/last", "1")
    sees(two, FilesystemEventType.CREATE, "last")
    two.stop()
    raises(NotFoundException, lambda: fs.watch_dir("missing"))
    raises(InvalidArgumentException, lambda: fs.watch_dir("watched/last"))
    outside = fs.watch_dir("/tmp")
    sandbox.commands.run("touch /tmp/touched")
    sees(outside, FilesystemEventType.CREATE, "touched")
    outside.stop()


def health(sandbox):
    assert sandbox.is_running()
    wrong = open_sandbox(token="wrong")
    from e2b import AuthenticationException

    raises(AuthenticationException, lambda: wrong.commands.run("true"))
    raises(AuthenticationException, lambda: wrong.files.read("x"))
    raises(AuthenticationException, lambda: wrong.files.list("/"))


def follow_until_cut(sandbox):
    """Prints the pid of a command, then what it prints until the connection is cut."""
    # In its middle it waits for the client that connects again.
    line = (
        "for i in $(seq 1 50); do echo line $i; done; while [ ! -e go ]; do sleep 0.02; done; "
        "rm go; for i in $(seq 51 100); do echo line $i; done"
    )
    handle = sandbox.commands.run(line, background=True, timeout=0)
    print("pid", handle.pid, flush=True)
    try:
        for stdout, _, _ in handle:
            print("out", repr(stdout), flush=True)
    except Exception as error:
        print("cut", type(error).__name__, flush=True)
        return
    raise AssertionError("the connection was never cut")


def reconnect(sandbox):
    handle = sandbox.commands.connect(int(os.environ["ENVD_PID"]), timeout=PATIENCE_S)
    sandbox.files.write("go", "")
    done = handle.wait()
    expected = "".join(f"line {number}\n" for number in range(1, 101))
    assert done.stdout == expected, done.stdout
    assert done.exit_code == 0


def gone(sandbox):
    assert not sandbox.is_running()
    raises(TimeoutException, lambda: sandbox.commands.run("true"))
    raises(TimeoutException, lambda: sandbox.files.read("x"))


SCENARIOS = [commands, background, stdin, kill, timeout, pty, files, directories, elsewhere, watch, health, big_output, big_files]


def main():
    chosen = sys.argv[1:] or [scenario.__name__ for scenario in SCENARIOS]
    sandbox = open_sandbox()
    for name in chosen:
        started = time.monotonic()
        globals()[name](sandbox)
        print(f"ok {name} {time.monotonic() - started:.2f}s", file=sys.stderr, flush=True)
    print("done", flush=True)


main()
