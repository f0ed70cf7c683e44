"""Tests that need a process of their own: the manager reaps whatever child its process has."""

import functools
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from tests.manager.places import PATIENCE_S, ROOT

Scene = Callable[[], Coroutine[Any, Any, None]]


def in_a_process_of_its_own(scene: Scene) -> Callable[[], None]:
    """Run the coroutine of a test in a new interpreter, where it must end without an error and without a word."""

    @functools.wraps(scene)
    def test() -> None:
        ended = subprocess.run(
            command_of(scene), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr

    return test


def command_of(scene: Scene) -> list[str]:
    """The command that runs a coroutine function of a test module, in the project's root."""
    script = (
        f"import asyncio, inspect; from {scene.__module__} import {scene.__name__} as scene; "
        "asyncio.run(inspect.unwrap(scene)())"
    )
    return [sys.executable, "-W", "error", "-c", script]
