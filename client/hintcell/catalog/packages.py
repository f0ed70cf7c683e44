"""Where the Python source of an installed package is. Finds and lists; imports nothing by the names it is given."""

import importlib.machinery
import importlib.util
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Final

from hintcell.catalog.files import Found, SourceFile, find_files
from hintcell.catalog.model import CatalogError, Reason, in_words

SUFFIX: Final = ".py"


def find_package(name: str, *, include_tests: bool) -> Found:
    """The source files of `name`: a package, a module, or (with dots) a part of a package.

    Only the top-level name is looked up; what follows is found as a folder or file below it, because looking up a
    dotted name would import its parents. Files are named from the top-level package's name on.

    Raises:
        CatalogError: nothing of that name is installed, or it has no Python source.
    """
    top, *inner = name.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        raise _not_found(name)
    found = Found()
    seen: set[str] = set()
    places = _places(top)
    for place in places:
        files = _source(place, top, inner, include_tests=include_tests)
        # Of a package spread over several folders, Python imports the first file of a name.
        found.files += [file for file in files.files if file.name not in seen]
        found.left_out += files.left_out
        seen.update(file.name for file in files.files)
    if not places:
        raise _not_found(name)
    if not found.files:
        left_out = in_words(found.left_out)
        raise CatalogError(
            f"{name!r} has no Python source here{left_out and f' ({left_out})'}: "
            "check its name, or name a package that is installed as source files"
        )
    found.files.sort(key=lambda file: file.name)
    return found


def _places(top: str) -> list[Path]:
    """The folders of a top-level package, or the one file of a module; a path may not exist (a zip archive)."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # ValueError: a module without a spec, such as `__main__`
        spec = None
    if spec is not None and spec.origin == "frozen":  # a few standard modules are inside the interpreter as well
        spec = importlib.machinery.PathFinder.find_spec(top) or spec
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin or "")]


def _source(place: Path, top: str, inner: list[str], *, include_tests: bool) -> Found:
    """The files of a module, or else of a folder, at or below `place`; none if there is neither."""
    name = "/".join((top, *inner))
    folder = place.joinpath(*inner)
    module = folder.with_name(inner[-1] + SUFFIX) if inner else place
    try:
        # Where both exist, Python imports the folder if it has an `__init__.py`, else the module.
        if module.suffix == SUFFIX and module.is_file() and not (folder / f"__init__{SUFFIX}").is_file():
            return Found([SourceFile(str(module.parent), module.name, name + SUFFIX, follow_link=True)])
        if not folder.is_dir():
            return Found()
        return find_files(
            str(folder), (SUFFIX,), prefix=f"{name}/", include_tests=include_tests, follow_file_links=True
        )
    except OSError:
        return Found([], Counter({Reason.UNREADABLE_FOLDERS: 1}))


def _not_found(name: str) -> CatalogError:
    if packages := _packages_of_distribution(name):
        names = " or ".join(map(repr, packages))
        return CatalogError(f"{name!r} is the name of a distribution: name the package it installs, {names}")
    return CatalogError(f"no package {name!r} is installed here: check its name, or install it in this environment")


def _packages_of_distribution(name: str) -> list[str]:
    """What one would import of the distribution `name` (`sklearn` of `scikit-learn`); empty if there is none."""
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return []
    files = {file.parts[0].removesuffix(SUFFIX) for file in distribution.files or () if file.suffix == SUFFIX}
    return sorted(package for package in files if package.isidentifier() and package != name)
