"""What to search instead of too much: folders, or parts of packages, of which each fits and that can be typed.

Covers which there are and how they are asked for. Does not cover the words around them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from hintcell.catalog.limits import Size
from hintcell.catalog.model import Narrower

# What is made from other files of the same tree, and tests, are seldom what one looks for first.
_LAST: Final = frozenset({"build", "dist", "out", "target", "test", "tests"})

# At the start of a glob they are no part of a name.
_MARKS: Final = ("!", "#")
_MAGIC: Final = re.compile(r"[*?\[\\]")


class _Kind(Enum):
    BELOW = "all files below the folder"
    IN = "the files that are directly in it"
    FILE = "one file"


class _Portion(NamedTuple):
    """Files to take together, by the path of their folder or of the one."""

    path: str
    kind: _Kind
    sizes: list[Size]


def narrower_globs(
    sizes: Mapping[str, Size], fits: Callable[[Iterable[Size]], bool], given: Sequence[str]
) -> list[Narrower]:
    """Folders, as globs to be used instead of those `given`; the largest first, and last tests and what was built.

    The files of a folder that has too many are named one by one.

    Args:
        sizes: of each file that was taken.
        fits: whether files of these sizes are within the limits together.
        given: the globs that chose the files.
    """
    return [
        _narrower(globs, portion.sizes)
        for portion in _portions(sizes, fits)
        if (globs := _globs(portion, [glob.removeprefix("./") for glob in given]))
    ]


def narrower_packages(sizes: Mapping[str, Size], fits: Callable[[Iterable[Size]], bool]) -> list[Narrower]:
    """The same of packages, by the names of their parts."""
    return [
        _narrower((portion.path.replace("/", "."),), portion.sizes)
        for portion in _portions(sizes, fits)
        if portion.kind is _Kind.BELOW and all(part.isidentifier() for part in portion.path.split("/"))
    ]


def _narrower(names: tuple[str, ...], sizes: Sequence[Size]) -> Narrower:
    return Narrower(names, sum(size.documents for size in sizes))


def _portions(sizes: Mapping[str, Size], fits: Callable[[Iterable[Size]], bool]) -> list[_Portion]:
    """Files apart from each other, in folders as large as fit."""
    own: dict[str, list[Size]] = {}
    for file, size in sizes.items():
        own.setdefault(_folder_of(file), []).append(size)
    below: dict[str, list[Size]] = {}
    for folder, files in own.items():
        for above in _with_those_above(folder):
            below.setdefault(above, []).extend(files)
    too_large = {folder for folder, files in below.items() if not fits(files)}
    crowded = {folder for folder in too_large & own.keys() if not fits(own[folder])}
    found = [
        _Portion(folder, _Kind.BELOW, files)
        for folder, files in below.items()
        if folder and folder not in too_large and _folder_of(folder) in too_large
    ]
    found += [_Portion(folder, _Kind.IN, own[folder]) for folder in own.keys() & too_large - crowded]
    found += [
        _Portion(file, _Kind.FILE, [size])
        for file, size in sizes.items()
        if _folder_of(file) in crowded and fits([size])
    ]
    return sorted(found, key=_rank)


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _with_those_above(folder: str) -> Iterator[str]:
    yield folder
    while folder:
        folder = _folder_of(folder)
        yield folder


def _rank(portion: _Portion) -> tuple[bool, int, str]:
    is_last = not _LAST.isdisjoint(portion.path.split("/"))
    return is_last, -sum(size.text_bytes for size in portion.sizes), portion.path


def _globs(portion: _Portion, given: Sequence[str]) -> tuple[str, ...]:
    """What takes exactly these files; nothing where that cannot be said for sure, or typed."""
    path, is_flat = portion.path, portion.kind is _Kind.IN
    if not path.isprintable():
        return ()
    at = _MAGIC.sub(r"\\\g<0>", path)
    if portion.kind is _Kind.FILE:
        return (f"/{at}",)
    if not at or at.startswith(_MARKS):
        at = f"/{at}".rstrip("/")
    if given and all(map(_is_of_names, given)):
        if is_flat:
            return (*(f"{at}/{glob}" for glob in given), f"!{at}/*/**")  # Or a folder that is called so would match.
        return tuple(f"{at}/**/{glob}" for glob in given)
    if not given or (
        all(map(_is_of_folder, given)) and any(f"{path}/".startswith(glob.removesuffix("**")) for glob in given)
    ):
        return (f"{at}/*" if is_flat else f"{at}/**",)
    return ()


def _is_of_names(glob: str) -> bool:
    return "/" not in glob and not glob.startswith(_MARKS)


def _is_of_folder(glob: str) -> bool:
    return glob.endswith("/**") and not glob.startswith(_MARKS)
