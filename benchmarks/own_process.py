"""Calls functions of a benchmark in processes of their own, each with its own peak memory.

Arguments and results are JSON. A benchmark imports the package inside such functions: the peak memory of a process
includes that of its parent when it was started.
"""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def command(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Return the command that calls a function of a file and prints its result."""
    return [sys.executable, __file__, function.__code__.co_filename, function.__name__, json.dumps(arguments)]


def in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own."""
    done = subprocess.run(command(function, *arguments), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{function.__name__} {arguments}: failed, see above")
    return json.loads(done.stdout)


if __name__ == "__main__" and len(sys.argv) == 4:
    file, name, given = sys.argv[1:]
    print(json.dumps(runpy.run_path(file)[name](*json.loads(given))))
