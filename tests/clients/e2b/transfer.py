"""A file up and down by the package e2b, and the same by the files API of Slipway, in turns.

Takes the size in MB and the number of rounds, and prints the samples in seconds.
"""

import json
import os
import sys
import time

import httpx
from e2b import Sandbox

size, rounds = int(sys.argv[1]) * 1_000_000, int(sys.argv[2])
data = os.urandom(size)
url, key = os.environ["E2B_API_URL"], os.environ["E2B_API_KEY"]
sandbox = Sandbox.create(timeout=3600)
api = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=600)
content = f"/v1/sandboxes/{sandbox.sandbox_id}/files/content"


def put():
    api.put(content, params={"path": "own.bin"}, content=data).raise_for_status()


def get():
    response = api.get(content, params={"path": "own.bin"})
    response.raise_for_status()
    return response.content


calls = {
    "up": {"own": put, "e2b": lambda: sandbox.files.write("/home/user/e2b.bin", data)},
    "down": {"own": get, "e2b": lambda: sandbox.files.read("/home/user/e2b.bin", format="bytes")},
}
took = {verb: {name: [] for name in by} for verb, by in calls.items()}
for _ in range(rounds):
    for verb, by in calls.items():
        for name, call in by.items():
            started = time.perf_counter()
            result = call()
            took[verb][name].append(time.perf_counter() - started)
            assert verb == "up" or bytes(result) == data, f"{name}: the file is not what was written"
sandbox.kill()
print(json.dumps(took))
