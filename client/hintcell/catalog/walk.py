"""The files below a folder that a catalog of it reads, and the counts of those that it does not.

What may not be read leaves no trace: neither is it opened, nor does it count, nor do folders count then, because
of a folder nobody asks whether it may be read. Ignore files are the walk's own rules and are read in any case.
Links are never followed, so a walk ends and stays below its root, whatever changes on the way. Does not cover what a
file holds (`reading`).
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hintcell.catalog.files import ENVIRONMENT_MARK, Entry, Found, SourceFile, entries_of
from hintcell.catalog.ignoring import IGNORE_FILE, Ignoring, work_tree_of
from hintcell.catalog.kinds import is_generated_name, kind_of
from hintcell.catalog.model import CatalogError, Reason, Tell
from hintcell.gitignore import GitPattern, GitPatternError, check_braces, git_pattern

MayRead = Callable[[str], bool]
"""Says of a path relative to the root (with `/`; bytes that are not UTF-8 as surrogates) whether it may be read."""

# Other people's source, put beside one's own.
_VENDORED: Final = frozenset(
    "vendor vendors vendored _vendor third_party third-party thirdparty 3rdparty node_modules bower_components "
    "jspm_packages web_modules site-packages dist-packages Godeps Pods Carthage".split()
)
_CACHES: Final = frozenset({"__pycache__"})
_TEST_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "testdata"})
_TEST_NAME: Final = re.compile(r"test_.*|.*[._](?:test|spec)\.\w+|.*Tests?\.(?:java|cs|kt|php)")

Globs = Callable[[str], bool]
"""Says of a path relative to the root whether it matches."""


class _Folder(NamedTuple):
    name: str  # relative to the root; ends in `/` unless empty
    in_tests: bool
    ignoring: Ignoring


def globs_of(patterns: Sequence[str], root: str | None = None) -> Globs | None:
    """What a file must match; None if there are no patterns.

    The last pattern that matches a file or a folder above it decides. (Of an ignore file it would be the last that
    matches the file, if there is one.)

    Args:
        patterns: as in an ignore file, but `src/*` matches nothing in folders of `src`.
        root: the folder that is searched, if it is known by now.

    Raises:
        CatalogError: one has no meaning, or certainly another one than was meant.
    """
    globs = [_glob(pattern, root) for pattern in ([patterns] if isinstance(patterns, str) else patterns)][::-1]
    if not globs:
        return None
    otherwise = all(glob.negated for glob in globs)
    return lambda path: next((not glob.negated for glob in globs if glob.regex.match(path)), otherwise)


def _glob(pattern: str, root: str | None) -> GitPattern:
    if root is not None and f"{pattern.removeprefix('!')}/".startswith(f"{os.path.abspath(root)}/"):  # noqa: PTH100
        raise CatalogError("a glob starts with the path of the folder that is searched: write it relative to that")
    try:
        check_braces(pattern)
        return git_pattern(pattern.removeprefix("./"), below=not pattern.endswith("/*"))
    except GitPatternError as error:
        raise CatalogError(f"a glob {error}; use globs such as 'src/**' or '*.go'") from error


def walk(
    root: str, *, include_tests: bool, globs: Globs | None, may_read: MayRead | None, tell: Tell | None = None
) -> Found:
    """The files to read below `root`, by their names, and what was left out, of which `tell` hears.

    Raises:
        OSError: `root` cannot be listed. A folder below it that cannot is counted instead.
    """
    found = Found(tell=tell)
    work_tree = work_tree_of(root)
    folders = [_Folder("", in_tests=False, ignoring=work_tree.ignoring)]

    def leave_out_folder(name: str, reason: Reason) -> None:
        if may_read is None:
            found.leave_out(name, reason)

    while folders:
        folder = folders.pop()
        try:
            entries = entries_of(root, folder.name)
        except OSError:
            if not folder.name:
                raise
            leave_out_folder(folder.name, Reason.UNREADABLE_FOLDERS)
            continue
        names = {entry.name for entry in entries}
        if folder.name and ENVIRONMENT_MARK in names:
            leave_out_folder(folder.name, Reason.VENDORED_FOLDERS)
            continue
        ignoring = folder.ignoring
        if IGNORE_FILE in names:
            ignoring = ignoring.below(root, folder.name, work_tree.prefix + folder.name)
        for entry in entries:
            name = folder.name + entry.name
            if entry.is_folder:
                if entry.name.startswith(".") or entry.name in _CACHES:
                    continue
                if entry.is_link:
                    leave_out_folder(f"{name}/", Reason.LINKS)
                elif ignoring.ignores(f"{work_tree.prefix}{name}/"):
                    leave_out_folder(f"{name}/", Reason.IGNORED)
                elif entry.name in _VENDORED:
                    leave_out_folder(f"{name}/", Reason.VENDORED_FOLDERS)
                else:
                    in_tests = folder.in_tests or entry.name in _TEST_FOLDERS
                    folders.append(_Folder(f"{name}/", in_tests, ignoring))
            elif may_read is not None and not may_read(name):
                continue
            elif reason := _reason_against(
                entry,
                name,
                is_test=not include_tests and (folder.in_tests or _TEST_NAME.fullmatch(entry.name) is not None),
                is_ignored=ignoring.ignores(work_tree.prefix + name),
                globs=globs,
            ):
                found.leave_out(name, reason)
            else:
                found.files.append(SourceFile(root, name, name))
    found.files.sort(key=lambda file: file.name)
    return found


def _reason_against(entry: Entry, name: str, *, is_test: bool, is_ignored: bool, globs: Globs | None) -> Reason | None:
    """Why a file is not read, going by its name alone; None if it is."""
    if is_ignored:
        return Reason.IGNORED
    if globs is not None and not globs(name):
        return Reason.OUTSIDE_GLOBS
    if is_generated_name(entry.name):
        return Reason.GENERATED_FILES
    if kind_of(entry.name) is None:
        return Reason.OTHER_FILES
    if entry.is_link:
        return Reason.LINKS
    return Reason.TEST_FILES if is_test else None
