"""`hintcell search`: a catalog of functions and texts, one session over it and its pages printed, or what is left out.

Covers the command line and the order of things: the grant first, then what may be read. Does not cover what is
printed (`report`) or what a catalog holds (`hintcell.catalog`).
"""

import functools
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource

from hintcell.catalog import Catalog, Progress, Tell, TooMuchError, build_from_directory, build_from_packages
from hintcell.cli.activity import Activity
from hintcell.cli.figures import counted, shown
from hintcell.cli.group import FailureError
from hintcell.cli.options import check_principal, check_text, chosen_limits, limit_options, login_name
from hintcell.cli.output import console, writing
from hintcell.cli.report import JsonReport, Report, TableReport
from hintcell.client import Client
from hintcell.policy import LABEL, load_policy
from hintcell_worker.protocol import MAX_PAGE_LIMIT, MAX_QUERY_BYTES, Limits, utf8_length


def _check_query(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str:
    if not words:
        if context.params.get("left_out"):
            return ""
        raise click.MissingParameter(ctx=context, param=parameter)
    if len(words) != 1:
        raise click.BadParameter('quote it, as in "read config"; name a folder with --root')
    query = check_text(words[0])
    if not query.strip():
        raise click.BadParameter("it is blank: give it at least one word")
    if (size := utf8_length(query)) > MAX_QUERY_BYTES:
        raise click.BadParameter(
            f"it has {size:,} bytes, {size - MAX_QUERY_BYTES:,} over the limit of {MAX_QUERY_BYTES:,}"
        )
    return query


def _check_root(_context: click.Context, _parameter: click.Parameter, root: str) -> str:
    if not Path(root).is_dir():
        name = shlex.quote(Path(root).name)
        raise click.BadParameter(f"{root!r} is a file: name its folder, and the file with --glob {name}")
    return root


@click.command()
@click.argument("query", nargs=-1, metavar="QUERY", callback=_check_query)
@click.option(
    "--root",
    type=click.Path(exists=True),
    metavar="DIRECTORY",
    default=".",
    show_default="the current directory",
    callback=_check_root,
    help="Search the files below this folder.",
)
@click.option(
    "--glob",
    "globs",
    multiple=True,
    metavar="PATTERN",
    help="Search only files that match, such as 'src/**' or '*.go'; '!' in front excludes. May be repeated.",
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Search the Python functions of an installed package, or a part such as scipy.stats. May be repeated.",
)
@click.option("--tests/--no-tests", default=None, help="Include tests, or not. [default: in folders, not in packages]")
@click.option("--fit", is_flag=True, help="If there is too much, take as much as fits, files in turn.")
@click.option(
    "--left-out",
    is_flag=True,
    is_eager=True,
    help="Search nothing, but print each file and folder that is left out, and why.",
)
@limit_options
@click.option(
    "--limit", type=click.IntRange(1, MAX_PAGE_LIMIT), default=10, show_default=True, help="Results in a page."
)
@click.option("--all-pages", is_flag=True, help="Print every page, as far as there are matches; with --json all.")
@click.option("--identifier-hints", is_flag=True, help="Also rank by parts of names such as readConfig.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each result.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    help="Use the manager that `hintcell serve` runs there, instead of a private one.",
)
@click.option(
    "--principal",
    default=login_name,
    show_default="your login name",
    callback=check_principal,
    help="Who reads, for permission changes and for --policy.",
)
@click.option(
    "--policy",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Search only what this policy lets the principal read.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    query: str,
    *,
    root: str,
    globs: tuple[str, ...],
    packages: tuple[str, ...],
    tests: bool | None,
    fit: bool,
    left_out: bool,
    max_documents: int | None,
    max_text_bytes: int | None,
    max_request_bytes: int | None,
    limit: int,
    all_pages: bool,
    identifier_hints: bool,
    as_json: bool,
    directory: str | None,
    principal: str,
    policy: str | None,
) -> None:
    """Rank functions and texts for QUERY, the best first.

    Those below a folder (functions of eleven languages, sections of texts, whole small files) or the functions of
    installed packages are one snapshot, of at most 4,096 with 2 MiB of text unless you raise the limits. A process of
    its own ranks them, and ends with this command.
    """
    limits = chosen_limits(max_documents, max_text_bytes, max_request_bytes)
    if packages and context.get_parameter_source("root") is not ParameterSource.DEFAULT:
        raise click.UsageError("--root and --package exclude each other: search a folder or packages")
    if packages and globs:
        raise click.UsageError("--glob and --package exclude each other: name parts of packages, as in scipy.stats")
    if packages and policy is not None:
        raise click.UsageError("--package and --policy exclude each other: a policy is about the files below --root")
    if packages and left_out:
        raise click.UsageError("--package and --left-out exclude each other: name a folder with --root")
    read = functools.partial(
        _catalog, root, globs, packages, limits, tests=tests, fit=fit, identifier_hints=identifier_hints
    )
    if left_out:
        read(may_read=None if policy is None else _may_read(policy, principal), tell=_tell)
        return
    report: Report = JsonReport(limits) if as_json else TableReport(console(), limit=limit, limits=limits)
    with Activity() as activity:
        activity.says("Starting a manager" if directory is None else "Looking for the manager")
        with Client(directory) as client:
            labels = _labels(root, packages)
            grant = client.grant(principal, labels if policy is None else [*labels, LABEL])
            may_read = None if policy is None else _may_read(policy, principal)
            activity.says("Reading files")
            catalog = read(may_read=may_read, progress=activity.files_done)
            activity.says(f"Ranking {counted(len(catalog.documents), 'document')}")
            with client.open(
                grant,
                snapshot_id=catalog.snapshot_id,
                query=query,
                documents=catalog.documents,
                limit=limit,
                identifier_hints=identifier_hints,
                limits=limits,
            ) as session:
                session.page()
                activity.stop()
                for page in session:
                    if not report.add(page, catalog) or not all_pages:
                        break
                report.end(session, catalog)


def _tell(path: str, reason: str) -> None:
    with writing():
        click.echo(f"{path}\t{reason}")


def _labels(root: str, packages: tuple[str, ...]) -> list[str]:
    """What the session depends on, for permission changes: the folder, or the top-level packages."""
    if packages:
        return sorted({f"package:{name.partition('.')[0]}" for name in packages})
    return ["folder:" + os.fsencode(Path(root).resolve()).decode("utf-8", "backslashreplace")]


def _may_read(policy: str, principal: str) -> Callable[[str], bool]:
    """What the policy says now, which must be after the grant was taken."""
    read = load_policy(policy)
    if not read.rules_of(principal).allow:
        raise FailureError(
            f"the policy lets {shown(principal)} read nothing: name who reads with --principal, or have the policy "
            "allow it something"
        )
    return read.may_read(principal)


def _catalog(
    root: str,
    globs: tuple[str, ...],
    packages: tuple[str, ...],
    limits: Limits,
    *,
    tests: bool | None,
    fit: bool,
    identifier_hints: bool,
    may_read: Callable[[str], bool] | None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Catalog:
    try:
        if packages:
            return build_from_packages(
                packages,
                limits=limits,
                fit=fit,
                identifier_hints=identifier_hints,
                include_tests=bool(tests),
                progress=progress,
            )
        return build_from_directory(
            root,
            limits=limits,
            fit=fit,
            identifier_hints=identifier_hints,
            include_tests=tests is not False,
            globs=globs,
            may_read=may_read,
            progress=progress,
            tell=tell,
        )
    except TooMuchError as error:
        raise FailureError(_ways_out(error, has_globs=bool(globs), in_packages=bool(packages))) from error


def _ways_out(error: TooMuchError, *, has_globs: bool, in_packages: bool) -> str:
    """What is too much, and the options that help."""
    option = "--package" if in_packages else "--glob"
    parts = error.parts(lambda names: " ".join(f"{option} {shlex.quote(name)}" for name in names))
    instead = f", in place of your {option}" if in_packages or has_globs else ""
    if parts:
        ways = [f"search one part at a time{instead}: {parts}"]
    elif in_packages:
        ways = ["name fewer packages, or parts of them: --package scipy.stats"]
    else:
        ways = [f"name what to search{instead}: --glob PATTERN"]
    if error.raised:
        options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in error.raised.items())
        ways.append(f"raise the limits: {options}")
    if error.fits_without_tests:
        ways.append("leave tests out: --no-tests")
    return f"too much for one snapshot: {error.excess}: {'; '.join(ways)}; or take only what fits: --fit"
