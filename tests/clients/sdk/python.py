"""Runs a script that uses the asynchronous Python client: `async` as it is, or `sync`, with the synchronous client, after
the same change of words that makes that client."""

import asyncio
import importlib.util
import os
import sys

mode, script = sys.argv[1:]
with open(script) as file:
    text = file.read()
if mode == "sync":
    generate = importlib.util.spec_from_file_location("generate", os.environ["SLIPWAY_SDK_GENERATE"])
    module = importlib.util.module_from_spec(generate)
    generate.loader.exec_module(module)
    text = module.synchronous(text)
names = {"__name__": "script"}
exec(compile(text, script, "exec"), names)
asyncio.run(names["main"]()) if mode == "async" else names["main"]()
