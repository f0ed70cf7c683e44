"""The files below a folder as what is searched: the usual source of `Searches`, under a policy if there is one."""

import json
import os
from collections.abc import Sequence

from hintcell.catalog import Cache, Catalog, CatalogError, MayRead, Progress, TooMuchError, build_from_directory
from hintcell.catalog.walk import globs_of
from hintcell.policy import PolicySource
from hintcell.searches import CatalogSource
from hintcell_worker.protocol import Limits

__all__ = ["folder_catalog"]


def folder_catalog(
    root: str | os.PathLike[str],
    *,
    policy: PolicySource | None = None,
    globs: Sequence[str] = (),
    include_tests: bool = True,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> CatalogSource:
    """What is below a folder at the time of each search, as far as the policy allows it then.

    Files that have not changed since the search before are not parsed again. Give `Searches` the same `limits`, and
    under a policy the label `hintcell.policy.LABEL`, which permission changes by it are about.

    Args:
        root: the folder.
        policy: read anew at each search; None allows everybody everything.
        globs: as of `build_from_directory`; a file must be among what they choose, and what those of a search choose.
        include_tests: whether files of tests are searched.
        limits: raised ones.
        progress: of each search, called in its thread; what it raises ends the search.

    Raises:
        CatalogError: a glob is no pattern.
    """
    own = globs_of(globs, os.fspath(root))
    cache = Cache()

    def catalog(principal: str, asked: Sequence[str]) -> Catalog:
        may_read = None if policy is None else _may_read(policy, principal)
        if own is not None and asked:  # Of those given to the builder, a file must match one; here, one of each.
            may_read = _both(own, may_read)
        try:
            return build_from_directory(
                root,
                limits=limits or Limits(),
                include_tests=include_tests,
                globs=asked or globs,
                may_read=may_read,
                cache=cache,
                progress=progress,
            )
        except TooMuchError as error:
            raise CatalogError(_narrower(error)) from error

    return catalog


def _both(one: MayRead, other: MayRead | None) -> MayRead:
    return one if other is None else lambda path: one(path) and other(path)


def _may_read(policy: PolicySource, principal: str) -> MayRead:
    now = policy.read()
    if not now.rules_of(principal).allow:
        raise CatalogError("the policy lets this principal read nothing: tell the user, nothing can be searched")
    return now.may_read(principal)


def _narrower(error: TooMuchError) -> str:
    """For a model, which can narrow a search, but not raise a limit."""
    parts = error.parts(lambda names: json.dumps(names, ensure_ascii=False))
    raised = ", ".join(f"{name}={value}" for name, value in error.raised.items())
    return (
        f"too much for one search: {error.excess}: give globs of a part{parts and f', such as one of {parts}'}; "
        f"the user can raise the limits{raised and f' ({raised})'} or leave folders out"
    )
