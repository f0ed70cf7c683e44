"""Files that an earlier build has parsed, so that the next one reads only what has changed since. In memory alone."""

import time
from dataclasses import dataclass, field
from os import stat_result
from typing import Final, NamedTuple

from hintcell.catalog.model import Outcome, Part
from hintcell_worker.protocol import utf8_length

# A file may be changed again within one tick of the file system's clock, without a trace in its times. The coarsest
# clocks tick every two seconds.
_SETTLED_NS: Final = 2_000_000_000

# A folder that is over all limits is not kept whole.
_MOST_TEXT_BYTES: Final = 64 * 1024 * 1024


class _Key(NamedTuple):
    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(slots=True)
class Build:
    """What one build takes from a cache and leaves to the next."""

    _before: dict[_Key, Outcome]
    kept: dict[_Key, Outcome] = field(default_factory=dict[_Key, Outcome])
    _text_bytes: int = 0

    def find(self, path: str, status: stat_result) -> Outcome | None:
        """What a file with this status holds; None if it has changed or is new."""
        parts = self._before.get(_key(path, status))
        if parts is not None:
            self.keep(path, status, parts)
        return parts

    def keep(self, path: str, status: stat_result, parts: Outcome) -> None:
        """Leave to the next build what a file holds; `status` was taken before it was read."""
        size = sum(utf8_length(part.text) for part in parts if isinstance(part, Part))
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
        if settled and self._text_bytes + size <= _MOST_TEXT_BYTES:
            self.kept[_key(path, status)] = parts
            self._text_bytes += size


class Cache:
    """What the last build has parsed. May be given to builds in several threads; the last to end is what is kept."""

    def __init__(self) -> None:
        self._last: dict[_Key, Outcome] = {}

    def begin(self) -> Build:
        """Start a build."""
        return Build(self._last)

    def end(self, build: Build) -> None:
        """Keep what a build has used, and nothing else."""
        self._last = build.kept


def _key(path: str, status: stat_result) -> _Key:
    return _Key(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
