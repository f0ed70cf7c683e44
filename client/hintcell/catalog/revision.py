"""The commit of a git work tree and whether what was read differs from it. Asks git, and does without if it fails."""

import os
import re
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

# Of a large work tree on a cold disk, git takes some seconds to look at every file.
_GIT_S: Final = 10.0
# Nothing of the work tree's own configuration is started; files that only this user ignores count as untracked.
_OPTIONS: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.excludesFile=/dev/null")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NOT_TRACKED: Final = ("?? ", "!! ")
_STATE_LENGTH: Final = 3

# `git:`, a commit of SHA-256, `+dirty`, and the digest.
LONGEST_BYTES: Final = len("git:") + 64 + len("+dirty:") + 32


def origin_of(root: str, names: Sequence[str]) -> str:
    """`git:COMMIT`, `git:COMMIT+dirty`, or `files` where git knows no commit.

    Args:
        root: the folder that was read.
        names: of the files that were read, relative to `root`, sorted. Dirty is a work tree of which a tracked file
            below `root` was changed, or one that is not tracked was read.
    """
    told = _git(root, "rev-parse", "--show-prefix", "HEAD")
    if told is None:
        return "files"
    prefix, _, commit = told.rstrip("\n").rpartition("\n")
    status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignored", "--", ".")
    if status is None or not _COMMIT.fullmatch(commit):
        return "files"
    return f"git:{commit}{'+dirty' if _is_dirty(status, prefix, names) else ''}"


def _is_dirty(status: str, prefix: str, names: Sequence[str]) -> bool:
    entries = iter(status.split("\0"))
    for entry in entries:
        if not entry:
            continue
        if not entry.startswith(_NOT_TRACKED):
            return True
        name = entry[_STATE_LENGTH:]
        if prefix.startswith(name):  # all of what was read, or a folder that it is in
            return True
        name = name.removeprefix(prefix)
        at = bisect_left(names, name)
        if at < len(names) and (names[at] == name or (name.endswith("/") and names[at].startswith(name))):
            return True
    return False


def _git(root: str, *arguments: str) -> str | None:
    """What git prints; None if there is no git, no work tree, or no answer in time."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", root, *_OPTIONS, *arguments],  # noqa: S607 - the user's own git
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_GIT_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout)
