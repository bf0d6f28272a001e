"""The synchronous client: a sandbox, its output as it comes, files, and an app of a private preview."""

import urllib.request
from datetime import timedelta

from opensandbox import SandboxSync
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync

sandbox = SandboxSync.create("host", timeout=timedelta(minutes=10), resource={"cpu": "1", "memory": "512Mi"})
try:
    seen = []

    def on_stdout(message):
        seen.append(message.text)
        sandbox.files.write_file("/tmp/go", "go")

    ran = sandbox.commands.run(
        "echo ready; until [ -e /tmp/go ]; do :; done; echo went on",
        handlers=ExecutionHandlersSync(on_stdout=on_stdout),
    )
    assert "".join(seen) == "ready\nwent on\n" and ran.exit_code == 0, (seen, ran)

    sandbox.files.write_file("page.txt", "from the sandbox")
    assert sandbox.files.read_file("/workspace/page.txt") == "from the sandbox"
    sandbox.commands.run("python3 -m http.server 8000", opts=RunCommandOpts(background=True))
    probe = "import socket; socket.create_connection((\"127.0.0.1\", 8000))"
    ran = sandbox.commands.run(f"until python3 -c '{probe}' 2>/dev/null; do :; done")
    assert ran.exit_code == 0, ran
    endpoint = sandbox.get_endpoint(8000)
    host, port = endpoint.endpoint.split(":")
    request = urllib.request.Request(f"http://127.0.0.1:{port}/page.txt", headers={"Host": endpoint.endpoint, **endpoint.headers})
    assert urllib.request.urlopen(request).read() == b"from the sandbox"
finally:
    sandbox.destroy()
print("done")
