"""The two builders of catalogs: of a folder, and of installed packages.

They find files, take each apart, name the parts and keep to the limits; every step is a module of its own.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from hintcell.catalog.cache import Build, Cache
from hintcell.catalog.files import Found, SourceFile, TooLargeError, opened
from hintcell.catalog.identifiers import identifier, printable
from hintcell.catalog.kinds import kind_of
from hintcell.catalog.limits import Gathering, OverLimitsError
from hintcell.catalog.model import (
    Catalog,
    CatalogError,
    Location,
    Narrower,
    Outcome,
    Reason,
    Tell,
    TooMuchError,
    in_words,
    snapshot_id,
)
from hintcell.catalog.narrowing import narrower_globs, narrower_packages
from hintcell.catalog.packages import find_package
from hintcell.catalog.reading import parts_of, python_functions_of
from hintcell.catalog.walk import MayRead, globs_of, walk
from hintcell_worker.protocol import Document, Limits, utf8_length

Progress = Callable[[int, int], None]
"""Called with the number of files done and of all files: first with 0 done, then after each file."""

USUAL_LIMITS: Final = Limits()

# Why something is left out before it is held against the globs, or because of them.
_BEFORE_GLOBS: Final = frozenset(
    {Reason.UNREADABLE_FOLDERS, Reason.IGNORED, Reason.VENDORED_FOLDERS, Reason.LINKS, Reason.OUTSIDE_GLOBS}
)

# In front of the digest in the ids of snapshots of a folder.
_ORIGIN: Final = "files"
_SNAPSHOT_ID_BYTES: Final = len(f"{_ORIGIN}:") + 32
_PYTHON: Final = "python"


def build_from_directory(
    root: str | os.PathLike[str],
    *,
    limits: Limits = USUAL_LIMITS,
    fit: bool = False,
    identifier_hints: bool = False,
    include_tests: bool = True,
    globs: Sequence[str] = (),
    may_read: MayRead | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Catalog:
    """A catalog of the functions and texts below a folder; ids start with the path relative to it.

    A function of Python, Go, JavaScript, TypeScript, Java, C, C++, Rust, C#, Ruby or PHP is a document; so is what
    such a file has besides functions and imports, all together, a section of Markdown or reStructuredText, a piece of
    plain text, and a whole file where there are no functions to tell apart. Rests and whole files have at most 64 KiB.
    What is left out is counted: what git ignores, other people's folders such as
    `node_modules` or virtual environments, what is generated, binary or too large, and files of other kinds. Links
    below `root` are not followed. Hidden folders and `__pycache__` are passed over without being counted.

    Args:
        root: the folder.
        limits: of the request that the catalog is for; room for the longest query is kept, for `hints` it is not.
        fit: when all documents are over the limits, whether to take as many as fit, files in turn, and count the
            rest in `left_out`, rather than to refuse. All texts are in memory until the choice is made.
        identifier_hints: whether what fits must leave room for identifiers to be split.
        include_tests: whether to read files named as tests (`test_*`, `*_test.go`, `*.spec.ts` and the like) and
            those in folders such as `tests`.
        globs: patterns as in a `.gitignore` file (`src/**`, `*.go`), of which a file's path must match one; the last
            that matches decides, and `!` excludes. But `src/*` matches nothing in folders of `src`. None: every file.
        may_read: asked for each file, by its path relative to `root` (with `/`; bytes that are not UTF-8 as
            surrogates), before it is opened or counted. What may not be read leaves no trace in the catalog, not
            even in its counts and its snapshot id; folders that are left out are then not counted either. Ignore
            files hold whether or not they may be read.
        cache: what earlier builds parsed, so that files which have not changed since are not parsed again.
        progress: see `Progress`.
        tell: called for each that `left_out` counts, with its path and the reason; a folder's ends in `/`, and that of
            a document in its line.

    Raises:
        CatalogError: the folder cannot be listed, a glob is not valid, there is nothing to take, or it is too much
            (`TooMuchError`).
    """
    place = os.fspath(root)
    given = [globs] if isinstance(globs, str) else globs
    spec = globs_of(given, place)
    try:
        found = walk(place, include_tests=include_tests, globs=spec, may_read=may_read, tell=tell)
    except FileNotFoundError as error:
        raise CatalogError(f"there is no folder {place!r}: check the path") from error
    except NotADirectoryError as error:
        raise CatalogError(f"{place!r} is not a folder: name the folder that holds the source") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise CatalogError(f"the folder {place!r} cannot be listed ({reason}): check its permissions") from error
    build = None if cache is None else cache.begin()

    def read(file: SourceFile) -> Outcome:
        return _read_any(file, build)

    gathered = _Gathered(limits, _SNAPSHOT_ID_BYTES, fit=fit, split=identifier_hints, tell=tell)
    try:
        gathered.gather([found], read, progress)
    finally:
        if cache is not None and build is not None:
            cache.end(build)
    try:
        documents = gathered.gathering.chosen()
    except OverLimitsError:
        narrower = narrower_globs(gathered.gathering.sizes, gathered.gathering.fits, given)
        without_tests: list[SourceFile] = []
        with suppress(OSError):
            without_tests = walk(place, include_tests=False, globs=spec, may_read=may_read).files
        raise gathered.too_much("documents", narrower, without_tests) from None
    # Not the commit of a git work tree: git runs programs that its configuration names, and so may the searched folder.
    if spec is not None and not found.files and found.left_out.keys() <= _BEFORE_GLOBS:
        nothing = f"no file below {place!r} matches {' or '.join(map(repr, given))}"
        return gathered.catalog(documents, _ORIGIN, nothing, "check the pattern, which is relative to that folder")
    return gathered.catalog(documents, _ORIGIN, f"nothing to search below {place!r}", "name another folder")


def build_from_packages(
    names: Iterable[str],
    *,
    limits: Limits = USUAL_LIMITS,
    fit: bool = False,
    identifier_hints: bool = False,
    include_tests: bool = False,
    progress: Progress | None = None,
) -> Catalog:
    """A catalog of every Python function in packages installed for this interpreter; none of them is imported.

    Args:
        names: top-level packages or modules (`scipy`, `six`), or parts of them (`scipy.stats`); as imported, not as
            installed (`sklearn`, not `scikit-learn`). Their order is that of the catalog.
        limits: of the request that the catalog is for; room for the longest query is kept, for `hints` it is not.
        fit: when all functions are over the limits, whether to take as many as fit and count the rest in `left_out`,
            rather than to refuse. Packages take turns, and within each its files do. All texts are in memory until
            the choice is made.
        identifier_hints: whether what fits must leave room for identifiers to be split.
        include_tests: whether to read files named `test_*` and those in folders named `test` or `tests`.
        progress: see `Progress`.

    Raises:
        CatalogError: a name is not installed or has no Python source, there is no function, or they are too many
            (`TooMuchError`).
    """
    chosen = list(dict.fromkeys([names] if isinstance(names, str) else names))
    if not chosen:
        raise CatalogError("no package was named: name at least one")
    found = {name: find_package(name, include_tests=include_tests) for name in chosen}
    # A part of a package that was named as well is in the catalog once, with the package.
    whole = [name for name in chosen if not any(name.startswith(f"{other}.") for other in chosen)]
    gathered = _Gathered(limits, len(snapshot_id(_PYTHON, ())), fit=fit, split=identifier_hints)
    gathered.gather([found[name] for name in whole], _read_python, progress)
    try:
        documents = gathered.gathering.chosen()
    except OverLimitsError:
        narrower = narrower_packages(gathered.gathering.sizes, gathered.gathering.fits)
        without_tests: list[SourceFile] = []
        with suppress(CatalogError):
            without_tests = [file for name in whole for file in find_package(name, include_tests=False).files]
        raise gathered.too_much("functions", narrower, without_tests) from None
    nothing = f"no Python function to search in {', '.join(chosen)}"
    return gathered.catalog(documents, _PYTHON, nothing, "name another package")


class _Gathered:
    """A catalog in the making: what was found, where, and what was left out."""

    def __init__(
        self, limits: Limits, snapshot_id_bytes: int, *, fit: bool, split: bool, tell: Tell | None = None
    ) -> None:
        self.gathering = Gathering(limits, snapshot_id_bytes, fit=fit, split=split)
        self._left_out: Counter[Reason] = Counter()
        self._tell = tell
        self._locations: dict[str, Location] = {}

    def gather(self, groups: Sequence[Found], read: Callable[[SourceFile], Outcome], progress: Progress | None) -> None:
        """Read all files of all groups."""
        total = sum(len(group.files) for group in groups)
        done = 0
        if progress is not None:
            progress(done, total)
        for group in groups:
            self._left_out += group.left_out
            self.gathering.start_group()
            for file in group.files:
                self._add(file, _outcome(file, read))
                done += 1
                if progress is not None:
                    progress(done, total)

    def catalog(self, documents: Sequence[Document], origin: str, nothing: str, advice: str) -> Catalog:
        """The catalog of these documents; `nothing` and `advice` are to be said if there are none."""
        chosen = {document.id for document in documents}
        for name, at in self._locations.items():
            if name not in chosen:
                self._leave_out(f"{at.path}:{at.line}", Reason.OVER_LIMITS)
        if not documents:
            reasons = in_words(self._left_out)
            raise CatalogError(f"{nothing}{reasons and f' ({reasons})'}: {advice}")
        return Catalog(
            snapshot_id=snapshot_id(origin, documents),
            documents=tuple(documents),
            left_out={reason: self._left_out[reason] for reason in Reason if self._left_out[reason]},
            text_bytes=sum(utf8_length(document.text) for document in documents),
            locations={document.id: self._locations[document.id] for document in documents},
        )

    def too_much(self, what: str, narrower: Sequence[Narrower], without_tests: Sequence[SourceFile]) -> TooMuchError:
        """Says that the documents, which are `what`, are over the limits; `without_tests` are the files but tests."""
        gathering = self.gathering
        names = {file.name for file in without_tests}
        rest = [size for name, size in gathering.sizes.items() if name in names]
        return TooMuchError(
            gathering.excess(what), gathering.raised(), narrower, fits_without_tests=bool(rest) and gathering.fits(rest)
        )

    def _add(self, file: SourceFile, parts: Outcome) -> None:
        """Add the parts of one file, and count what is missing."""
        path = printable(file.name)
        for turn, part in enumerate(parts):
            if isinstance(part, Reason):
                self._leave_out(path, part)
                continue
            name = identifier(file.name, part.line, part.name)
            if name is None:
                self._leave_out(f"{path}:{part.line}", Reason.LONG_IDS)
            elif name in self._locations:
                self._leave_out(f"{path}:{part.line}", Reason.TAKEN_IDS)
            else:
                document = Document(name, part.text)
                self._locations[name] = Location(path, part.line, part.name)
                self.gathering.add(document, turn, file.name)

    def _leave_out(self, path: str, reason: Reason) -> None:
        self._left_out[reason] += 1
        if self._tell is not None:
            self._tell(path, reason)


def _outcome(file: SourceFile, read: Callable[[SourceFile], Outcome]) -> Outcome:
    try:
        return read(file)
    except OSError:
        return [Reason.UNREADABLE_FILES]
    except TooLargeError:
        return [Reason.LARGE_FILES]


def _read_any(file: SourceFile, build: Build | None) -> Outcome:
    own_name = file.name.rpartition("/")[2]
    kind = kind_of(own_name)
    if kind is None:
        return [Reason.OTHER_FILES]
    with opened(file) as (stream, status):
        if build is not None and (known := build.find(file.path, status)) is not None:
            return known
        content = stream.read()
    parts = parts_of(content, kind, own_name)
    if build is not None:
        build.keep(file.path, status, parts)
    return parts


def _read_python(file: SourceFile) -> Outcome:
    with opened(file) as (stream, _):
        return python_functions_of(stream.read())
