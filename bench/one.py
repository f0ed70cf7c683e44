"""`python -m bench.one NAME FILE EFFORT`: measure one part and write it into a file; `python -m bench` calls this."""

import importlib
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Protocol, cast

import msgspec

from bench.results import Part


class PartModule(Protocol):
    """What a module that measures a part has."""

    def measure(self, effort: float = 1.0) -> Part: ...


def module_of(name: str) -> PartModule:
    return cast(PartModule, importlib.import_module(f"bench.{name}"))


def main() -> int:
    name, into, effort = sys.argv[1:]
    signal.signal(signal.SIGTERM, _stop)
    try:
        part = module_of(name).measure(float(effort))
    except ModuleNotFoundError as error:
        print(f"bench.{name} needs {error.name}: install the extra, pip install -e '.[bench]'", file=sys.stderr)
        return 1
    Path(into).write_bytes(msgspec.json.encode(part))
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """Leave by way of every `with`, so that no manager is left behind."""
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
