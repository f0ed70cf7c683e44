"""The two builders of catalogs: of a folder, and of installed packages.

They find files, take the functions out of each, name them and keep to the limits; every step is a module of its
own. A further language is one more entry in `_LANGUAGES`.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hintcell.catalog import python
from hintcell.catalog.files import Found, SourceFile, TooLargeError, find_files, read_file
from hintcell.catalog.identifiers import identifier
from hintcell.catalog.limits import Gathering
from hintcell.catalog.model import Catalog, CatalogError, Reason, in_words, snapshot_id
from hintcell.catalog.packages import find_package
from hintcell_worker.protocol import Document, Limits, utf8_length

Progress = Callable[[int, int], None]
"""Called with the number of files done and of all files: first with 0 done, then after each file."""

_PROTOCOL_LIMITS: Final = Limits()

_LANGUAGES: Final[Mapping[str, Callable[[bytes], list[python.Function]]]] = {python.SUFFIX: python.functions_of}


def build_from_directory(
    root: str | os.PathLike[str],
    *,
    limits: Limits = _PROTOCOL_LIMITS,
    fit: bool = False,
    include_tests: bool = True,
    may_read: Callable[[str], bool] | None = None,
    progress: Progress | None = None,
) -> Catalog:
    """A catalog of every Python function below a folder; ids start with the path relative to it.

    Links below `root` are not followed. Hidden folders, `__pycache__`, `node_modules` and virtual environments are
    passed over without being counted.

    Args:
        root: the folder.
        limits: of the request that the catalog is for; room for the longest query is kept, for hints it is not.
        fit: when all functions are over the limits, whether to take as many as fit, files in turn, and count the
            rest in `left_out`, rather than to refuse. All texts are in memory until the choice is made.
        include_tests: whether to read files named `test_*` and those in folders named `test` or `tests`.
        may_read: asked for the path of each file relative to `root`, with `/` and with surrogates for bytes that are
            not UTF-8, before it is opened; a file that it denies leaves no trace, not even in a count.
        progress: see `Progress`.

    Raises:
        CatalogError: the folder cannot be listed, there is no function, or they are over the limits.
    """
    place = os.fspath(root)
    try:
        found = find_files(place, tuple(_LANGUAGES), include_tests=include_tests, may_read=may_read)
    except FileNotFoundError as error:
        raise CatalogError(f"there is no folder {place!r}: check the path") from error
    except NotADirectoryError as error:
        raise CatalogError(f"{place!r} is not a folder: name the folder that holds the source") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise CatalogError(f"the folder {place!r} cannot be listed ({reason}): check its permissions") from error
    return _build(
        [found], limits, fit=fit, progress=progress, where=f"below {place!r}", advice="choose a smaller folder"
    )


def build_from_packages(
    names: Iterable[str],
    *,
    limits: Limits = _PROTOCOL_LIMITS,
    fit: bool = False,
    include_tests: bool = False,
    progress: Progress | None = None,
) -> Catalog:
    """A catalog of every Python function in packages installed for this interpreter; none of them is imported.

    Args:
        names: top-level packages or modules (`scipy`, `six`), or parts of them (`scipy.stats`); as imported, not as
            installed (`sklearn`, not `scikit-learn`). Their order is that of the catalog.
        limits: of the request that the catalog is for; room for the longest query is kept, for hints it is not.
        fit: when all functions are over the limits, whether to take as many as fit and count the rest in `left_out`,
            rather than to refuse. Packages take turns, and within each its files do. All texts are in memory until
            the choice is made.
        include_tests: whether to read files named `test_*` and those in folders named `test` or `tests`.
        progress: see `Progress`.

    Raises:
        CatalogError: a name is not installed or has no Python source, there is no function, or they are over the
            limits.
    """
    chosen = list(dict.fromkeys([names] if isinstance(names, str) else names))
    if not chosen:
        raise CatalogError("no package was named: name at least one")
    found = {name: find_package(name, include_tests=include_tests) for name in chosen}
    # A part of a package that was named as well is in the catalog once, with the package.
    whole = [name for name in chosen if not any(name.startswith(f"{other}.") for other in chosen)]
    return _build(
        [found[name] for name in whole],
        limits,
        fit=fit,
        progress=progress,
        where=f"in {', '.join(chosen)}",
        advice="name fewer packages, or parts of them such as 'scipy.stats'",
    )


def _build(
    groups: Sequence[Found], limits: Limits, *, fit: bool, progress: Progress | None, where: str, advice: str
) -> Catalog:
    left_out: Counter[Reason] = Counter()
    gathering = Gathering(limits, len(snapshot_id(python.LANGUAGE, ())), fit=fit)
    taken_ids: set[str] = set()
    total = sum(len(group.files) for group in groups)
    done = 0
    if progress is not None:
        progress(done, total)
    for group in groups:
        left_out += group.left_out
        gathering.start_group()
        for file in group.files:
            _gather(file, gathering, taken_ids, left_out)
            done += 1
            if progress is not None:
                progress(done, total)
    documents = tuple(gathering.chosen(advice))
    if over := len(taken_ids) - len(documents):
        left_out[Reason.OVER_LIMITS] = over
    if not documents:
        reasons = in_words(left_out)
        raise CatalogError(f"no Python function to take {where}{reasons and f' ({reasons})'}: look in another place")
    return Catalog(
        snapshot_id=snapshot_id(python.LANGUAGE, documents),
        documents=documents,
        left_out={reason: left_out[reason] for reason in Reason if left_out[reason]},
        text_bytes=sum(utf8_length(document.text) for document in documents),
    )


def _gather(file: SourceFile, gathering: Gathering, taken_ids: set[str], left_out: Counter[Reason]) -> None:
    """Add the functions of one file, or count why they are missing."""
    try:
        functions = _LANGUAGES["." + file.name.rpartition(".")[2]](read_file(file))
    except OSError:
        left_out[Reason.UNREADABLE_FILES] += 1
        return
    except TooLargeError:
        left_out[Reason.LARGE_FILES] += 1
        return
    except python.InvalidSourceError:
        left_out[Reason.INVALID_FILES] += 1
        return
    if not functions:
        left_out[Reason.EMPTY_FILES] += 1
    for turn, function in enumerate(functions):
        name = identifier(file.name, function.line, function.name)
        if name is None:
            left_out[Reason.LONG_IDS] += 1
        elif name in taken_ids:
            left_out[Reason.TAKEN_IDS] += 1
        else:
            taken_ids.add(name)
            gathering.add(Document(name, function.text), turn)
