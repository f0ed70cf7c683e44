"""Managers and templates that misbehave as a test wants it, without a hook in the product.

Python runs a module `sitecustomize` on PYTHONPATH at its start, also with -P.
"""

import importlib
import os
from pathlib import Path

import pytest

_SITECUSTOMIZE = """
import pathlib, sys
for role in ("hintcell_worker.template", "hintcell_worker.fresh", "hintcell_manager"):
    code = pathlib.Path(__file__).with_name(role + ".txt")
    if role in sys.orig_argv and code.exists():
        exec(compile(code.read_text(), str(code), "exec"), {})
"""


class Patches:
    """Code that runs at the start of every manager or template started from now on."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        (directory / "sitecustomize.py").write_text(_SITECUSTOMIZE)
        inherited = os.environ.get("PYTHONPATH")
        monkeypatch.setenv("PYTHONPATH", f"{directory}:{inherited}" if inherited else str(directory))

    def template(self, code: str) -> None:
        """Run this in the template, before anything of hintcell's is loaded there."""
        self._at_start("hintcell_worker.template", code)

    def fresh_worker(self, code: str) -> None:
        """Run this in each worker that the exec launcher starts, before anything of hintcell's is loaded there."""
        self._at_start("hintcell_worker.fresh", code)

    def manager(self, code: str) -> None:
        """Run this in the manager, before anything of hintcell's is loaded there."""
        self._at_start("hintcell_manager", code)

    def deadline(self, module: str, name: str, seconds: float) -> None:
        """Give a named deadline of the manager another length; that there is one of this name is checked."""
        assert isinstance(getattr(importlib.import_module(module), name), float)
        self.manager(f"import {module}; {module}.{name} = {seconds}")

    def _at_start(self, module: str, code: str) -> None:
        (self._directory / f"{module}.txt").write_text(code)

    def package(self, name: str, code: str) -> None:
        """Put a package of this name before the installed one."""
        (self._directory / name).mkdir()
        (self._directory / name / "__init__.py").write_text(code)
