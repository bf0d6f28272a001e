"""Creates a sandbox, runs a command in it, and streams the output of another one."""

from slipway import Slipway

with Slipway() as slipway:  # SLIPWAY_URL and SLIPWAY_TOKEN
    sandbox = slipway.sandboxes.create(limits={"memory_mb": 512})
    try:
        sandbox.files.write("workspace/app/hello.sh", "echo hello $NAME\n")
        result = sandbox.run("sh hello.sh", env={"NAME": "world"})
        print(result.code, result.stdout.strip())

        exec = sandbox.exec("for i in 1 2 3; do echo $i; sleep 0.1; done")
        for part in exec.output():
            print("line", part.data.decode().strip())
        print("ended:", exec.wait().exit["kind"])
    finally:
        sandbox.delete()
