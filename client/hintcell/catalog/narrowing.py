"""What to search instead of too much: folders, or parts of packages, of which each fits and that can be typed.

Covers which there are and how they are asked for. Does not cover the words around them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hintcell.catalog.limits import Size
from hintcell.catalog.model import Narrower

# What is made from other files of the same tree is seldom what one looks for.
_MADE: Final = frozenset({"build", "dist", "out", "target"})

# At the start of a glob they are no part of a name.
_MARKS: Final = ("!", "#")
_MAGIC: Final = re.compile(r"[*?\[\\]")


class _Portion(NamedTuple):
    """Files below a folder, or only those that are directly in it."""

    folder: str
    is_flat: bool
    sizes: list[Size]


def narrower_globs(
    sizes: Mapping[str, Size], fits: Callable[[Iterable[Size]], bool], given: Sequence[str]
) -> list[Narrower]:
    """Folders, as globs to be used instead of those `given`; the largest first, and last what was built.

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
        _narrower((portion.folder.replace("/", "."),), portion.sizes)
        for portion in _portions(sizes, fits)
        if not portion.is_flat and all(part.isidentifier() for part in portion.folder.split("/"))
    ]


def _narrower(names: tuple[str, ...], sizes: Sequence[Size]) -> Narrower:
    return Narrower(names, sum(size.documents for size in sizes))


def _portions(sizes: Mapping[str, Size], fits: Callable[[Iterable[Size]], bool]) -> list[_Portion]:
    """Files apart from each other, in folders as large as fit."""
    own: dict[str, list[Size]] = {}
    for file, size in sizes.items():
        own.setdefault(file.rpartition("/")[0], []).append(size)
    below: dict[str, list[Size]] = {}
    for folder, files in own.items():
        for above in _with_those_above(folder):
            below.setdefault(above, []).extend(files)
    too_large = {folder for folder, files in below.items() if not fits(files)}
    found = [
        _Portion(folder, is_flat=False, sizes=files)
        for folder, files in below.items()
        if folder and folder not in too_large and folder.rpartition("/")[0] in too_large
    ]
    found += [
        _Portion(folder, is_flat=True, sizes=files)
        for folder, files in own.items()
        if folder in too_large and fits(files)
    ]
    return sorted(found, key=_rank)


def _with_those_above(folder: str) -> Iterator[str]:
    yield folder
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _rank(portion: _Portion) -> tuple[bool, int, str, bool]:
    is_made = not _MADE.isdisjoint(portion.folder.split("/"))
    return is_made, -sum(size.text_bytes for size in portion.sizes), portion.folder, portion.is_flat


def _globs(portion: _Portion, given: Sequence[str]) -> tuple[str, ...]:
    """What takes exactly these files; nothing where that cannot be said for sure, or typed."""
    folder = portion.folder
    if not folder.isprintable():
        return ()
    at = _MAGIC.sub(r"\\\g<0>", folder)
    if not at or at.startswith(_MARKS):
        at = f"/{at}".rstrip("/")
    if given and all(map(_is_of_names, given)):
        globs = [f"{at}/{glob}" if portion.is_flat else f"{at}/**/{glob}" for glob in given]
    elif all(map(_is_of_folder, given)) and (
        not given or any(f"{folder}/".startswith(glob.removesuffix("**")) for glob in given)
    ):
        globs = [f"{at}/*" if portion.is_flat else f"{at}/**"]
    else:
        return ()
    return (*globs, *([f"!{at}/*/**"] if portion.is_flat else []))


def _is_of_names(glob: str) -> bool:
    return "/" not in glob and not glob.startswith(_MARKS)


def _is_of_folder(glob: str) -> bool:
    return glob.endswith("/**") and not glob.startswith(_MARKS)
