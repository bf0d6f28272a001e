"""E2B's code interpreter by its own SDK: state, output, charts, errors, contexts, time."""

import base64

from e2b import TimeoutException
from e2b_code_interpreter import Sandbox


def check(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


sandbox = Sandbox.create()
try:
    check(sandbox.run_code("x = 20\nx + 1").text, "21")
    check(sandbox.run_code("x += 1\nx").text, "21")
    check(sandbox.run_code("y = 1").text, None)

    printed, failed = [], []
    execution = sandbox.run_code(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        on_stdout=lambda message: printed.append(message.line), on_stderr=lambda message: failed.append(message.line))
    check(("".join(printed), "".join(failed)), ("out\n", "err\n"))
    check("".join(execution.logs.stdout), "out\n")
    assert execution.execution_count >= 4, execution.execution_count

    chart = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()").results[0]
    check(base64.b64decode(chart.png)[:8], b"\x89PNG\r\n\x1a\n")
    table = sandbox.run_code("import pandas\npandas.DataFrame({'a': [1, 2]})").results[0]
    assert "<table" in table.html and table.is_main_result, table

    error = sandbox.run_code("def f():\n    return 1 / 0\nf()").error
    check((error.name, error.value), ("ZeroDivisionError", "division by zero"))
    assert "ZeroDivisionError" in error.traceback and "line 2" in error.traceback, error.traceback

    check(sandbox.run_code("import os\nos.environ['GREETING']", envs={"GREETING": "hello"}).text, "'hello'")
    check(sandbox.run_code("os.environ.get('GREETING')").text, None)

    # Files, commands and code see the same home.
    sandbox.files.write("/home/user/data.txt", "from outside")
    check(sandbox.run_code("open('data.txt').read()").text, "'from outside'")
    sandbox.run_code("open('made.txt', 'w').write('from code')")
    check(sandbox.files.read("made.txt"), "from code")
    check(sandbox.run_code("import subprocess\nsubprocess.check_output('echo from a program', shell=True)").text, "b'from a program\\n'")

    context = sandbox.create_code_context(cwd="/tmp")
    check((context.language, context.cwd), ("python", "/tmp"))
    sandbox.run_code("x = 'other'", context=context)
    check(sandbox.run_code("x").text, "21")
    check(sandbox.run_code("x", context=context).text, "'other'")
    check(sandbox.run_code("import os\nos.getcwd()", context=context).text, "'/tmp'")
    assert context.id in [each.id for each in sandbox.list_code_contexts()]
    sandbox.restart_code_context(context)
    check(sandbox.run_code("x", context=context).error.name, "NameError")
    sandbox.remove_code_context(context)
    try:
        sandbox.run_code("1", context=context)
        raise AssertionError("a removed context runs code")
    except Exception as error:
        assert "no context" in str(error), error

    # Code that is given up is interrupted, and its context goes on.
    try:
        sandbox.run_code("import time\nwhile True:\n    time.sleep(0.1)", timeout=2)
        raise AssertionError("endless code ended")
    except TimeoutException:
        pass
    check(sandbox.run_code("x").text, "21")

    check(sandbox.run_code("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)").error.name, "KernelDied")
    check(sandbox.run_code("'a new kernel'").text, "'a new kernel'")
    try:
        sandbox.run_code("1", language="r")
        raise AssertionError("a language that the image does not have")
    except Exception as error:
        assert "python" in str(error), error
finally:
    sandbox.kill()

plain = Sandbox.create("base")
try:
    plain.run_code("1")
    raise AssertionError("a sandbox of another image runs code")
except Exception as error:
    assert "no code interpreter" in str(error), error
finally:
    plain.kill()
print("passed")
