"""Variables that are in the environment of a kernel while it runs one piece of code. Imported by kernels."""

import json
import os

_earlier = []


def push(variables):
    variables = json.loads(variables)
    _earlier.append({name: os.environ.get(name) for name in variables})
    os.environ.update(variables)


def pop():
    for name, value in _earlier.pop().items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
