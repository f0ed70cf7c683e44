"""Which files and folders git would ignore: `.gitignore` at every level and `.git/info/exclude`.

Of one file the last pattern that matches decides; of several, the one nearest to what is asked about that has any
pattern that matches. What is below an ignored folder is ignored with it, whatever the patterns say: whoever walks
does not enter it. Three things differ from git: a file that is tracked although a pattern matches it is ignored, the
user's own patterns (`core.excludesFile`) are not looked at, so that every user finds the same, and of the lines of one
file only the last `MAX_LINES` hold, so that no file can make a walk last.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hintcell.catalog.files import SourceFile, TooLargeError, read_file
from hintcell.gitignore import GitPattern, GitPatternError, git_pattern

IGNORE_FILE: Final = ".gitignore"
MAX_LINES: Final = 4_096
_GIT: Final = ".git"


class _Rules(NamedTuple):
    """The patterns of one file, the last first, and how the names begin that they are about."""

    base: str
    patterns: list[GitPattern]


class Ignoring(NamedTuple):
    """The rules that hold in one folder, the nearest first."""

    rules: tuple[_Rules, ...] = ()

    def below(self, root: str, inner: str, base: str) -> "Ignoring":
        """The rules that hold in a folder with an ignore file, which is called `base` (ends in `/`, or empty).

        The folder is `inner` (likewise) below `root`.
        """
        if patterns := _patterns(SourceFile(root, inner + IGNORE_FILE, IGNORE_FILE)):
            return Ignoring((_Rules(base, patterns), *self.rules))
        return self

    def ignores(self, name: str) -> bool:
        """Whether `name`, which ends in `/` if it is a folder, is ignored; of its parents none is."""
        for base, patterns in self.rules:
            relative = name.removeprefix(base)
            for pattern in patterns:
                if pattern.regex.match(relative):
                    return not pattern.negated
        return False


class WorkTree(NamedTuple):
    """What holds in a folder because of the git work tree that it is in.

    Attributes:
        prefix: how the folder's files are called from the top of the work tree, with `/` at the end; empty at the
            top, and where there is no work tree.
        ignoring: rules from outside of the folder, for names that start with `prefix`.
    """

    prefix: str
    ignoring: Ignoring


def work_tree_of(root: str) -> WorkTree:
    """The rules from above `root`."""
    place = os.path.realpath(root)
    top = next((folder for folder in _upwards(place) if os.path.lexists(os.path.join(folder, _GIT))), None)  # noqa: PTH118
    if top is None:
        return WorkTree("", Ignoring())
    ignoring = Ignoring()
    if patterns := _patterns(_plain(_git_folder(Path(top, _GIT)) / "info" / "exclude")):
        ignoring = Ignoring((_Rules("", patterns),))
    inner = os.path.relpath(place, top).split("/") if place != top else []
    for depth in range(len(inner)):
        above = "".join(f"{part}/" for part in inner[:depth])
        ignoring = ignoring.below(top, above, above)
    return WorkTree("".join(f"{part}/" for part in inner), ignoring)


def _upwards(place: str) -> Iterator[str]:
    yield place
    while (parent := os.path.dirname(place)) != place:  # noqa: PTH120
        yield (place := parent)


def _git_folder(git: Path) -> Path:
    """Where `info` is: in `.git`, or in the folder that all work trees of a repository share."""
    if git.is_dir():
        return git
    try:
        folder = git.parent / _first_line(git).removeprefix("gitdir:").strip()
        return folder / _first_line(folder / "commondir") if (folder / "commondir").is_file() else folder
    except (OSError, TooLargeError, ValueError):
        return git


def _first_line(file: Path) -> str:
    return os.fsdecode(read_file(_plain(file)).partition(b"\n")[0]).strip()


def _plain(file: Path) -> SourceFile:
    return SourceFile(str(file.parent), file.name, file.name)


def _patterns(file: SourceFile) -> list[GitPattern]:
    """The patterns in an ignore file, the last first; none if it cannot be read or is a link, which git refuses too."""
    try:
        content = read_file(file)
    except (OSError, TooLargeError, ValueError):
        return []
    patterns: list[GitPattern] = []
    for line in os.fsdecode(content.removeprefix(b"\xef\xbb\xbf")).split("\n")[-MAX_LINES:]:
        try:
            patterns.append(git_pattern(line.removesuffix("\r"), below=False))
        except GitPatternError:  # Git passes over it as well.
            continue
    return patterns[::-1]
